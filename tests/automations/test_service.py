"""Automations: create, change, delete, run, list the runs, and who created their jobs."""

from typing import Any

import pytest

from copydesk.automations.automation import Outcome
from copydesk.automations.firing import AutomationNotFound
from copydesk.automations.service import AutomationDisabled, TooManyAutomations
from copydesk.core import audit_log, clock
from copydesk.core.errors import InvalidRequest
from copydesk.core.ids import new_id
from copydesk.jobs.job import ACTIVE, Creator, CreatorKind
from copydesk.jobs.projects.context_repositories import ContextInUse, NewContext
from tests.automations.conftest import Bench

SCHEDULE = {"type": "schedule", "cron": "0 6 * * *", "timezone": "Europe/Berlin"}


def list_actions(bench: Bench) -> list[tuple[str, str]]:
    entries = audit_log.list_entries(bench.desk.database, bench.project.id)
    return [(entry["actor"], entry["action"]) for entry in entries if entry["action"].startswith("automation.")]


def test_created_automation_has_the_defaults_of_its_kind(bench: Bench) -> None:
    automation = bench.desk.automations.create(bench.project, {"kind": "broken_links"}, actor="Ada")
    stored = bench.load(automation)
    assert stored == automation
    assert stored.definition.name == "Broken links"
    assert stored.definition.grouping == "append"
    assert stored.definition.daily_limit == 20
    assert stored.next_slot_at is not None
    assert stored.next_slot_at > clock.now()
    assert list_actions(bench) == [("Ada", "automation.created")]


def test_custom_automation_opens_a_new_pull_request_by_default(bench: Bench) -> None:
    assert bench.create().definition.grouping == "new"


@pytest.mark.parametrize(
    ("values", "field", "message"),
    [
        ({"trigger": {"type": "schedule", "cron": "61 * * * *"}}, "trigger", "the minute is invalid"),
        ({"trigger": {"type": "schedule", "cron": "* * * *"}}, "trigger", "Write five fields"),
        ({"trigger": {"type": "schedule", "cron": "* * * * * *"}}, "trigger", "Write five fields"),
        ({"trigger": {"type": "schedule", "cron": "0 0 * * *", "timezone": "Mars/Base"}}, "trigger", "time zone"),
        ({"trigger": {"type": "schedule", "cron": "0 0 * * *", "timezone": "../../etc"}}, "trigger", "time zone"),
        ({"trigger": {"type": "never"}}, "trigger", "schedule"),
        ({"trigger": {"type": "code_change", "paths": ["/etc"]}}, "trigger.paths", "leading /"),
        ({"trigger": {"type": "code_change", "repositories": ["a b"]}}, "trigger.repositories.0", "pattern"),
        ({"prompt": " "}, "prompt", "needs a prompt"),
        ({"prompt": "a\x00b"}, "prompt", "NUL"),
        ({"name": "two\nlines"}, "name", "one line"),
        ({"kind": "coffee"}, "kind", "broken_links"),
        ({"kind": ["custom"]}, "kind", "custom"),
        ({"mode": "push"}, "mode", "merge"),
        ({"dailyLimit": 0}, "dailyLimit", "greater"),
        ({"monthlyCostUsd": -1}, "monthlyCostUsd", "greater"),
        ({"maxLines": 0}, "maxLines", "greater"),
        ({"paths": ["../secrets"]}, "paths", "path pattern"),
        ({"reviewers": ["a b"]}, "reviewers.0", "pattern"),
        ({"model": "gpt-nothing"}, "model", "cannot use the model"),
        ({"color": "red"}, "color", "is not a field"),
    ],
)
def test_invalid_field_is_named(bench: Bench, values: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        bench.create(**values)
    assert [detail.field for detail in refusal.value.details] == [field]
    assert message in refusal.value.message


def test_kind_that_the_mechanic_cannot_do_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidRequest, match="mechanic cannot do 'translate'"):
        bench.desk.automations.create(bench.project, {"kind": "translate"}, actor="Ada")


def test_change_keeps_the_other_fields(bench: Bench) -> None:
    automation = bench.create(trigger=SCHEDULE, dailyLimit=7)
    changed = bench.desk.automations.change(bench.project, automation.id, {"enabled": False}, actor="Bob")
    assert changed == bench.load(automation)
    assert (changed.definition.daily_limit, changed.definition.enabled, changed.next_slot_at) == (7, False, None)
    changed = bench.desk.automations.change(
        bench.project, automation.id, {"enabled": True, "monthlyCostUsd": 3.5}, actor="Bob"
    )
    assert changed.next_slot_at == automation.next_slot_at
    assert changed.definition.monthly_cost_usd == 3.5
    assert list_actions(bench) == [("Bob", "automation.changed")] * 2 + [("Ada", "automation.created")]


def test_invalid_change_changes_nothing(bench: Bench) -> None:
    automation = bench.create()
    for values in ({"prompt": ""}, {"name": None}, {"enabled": "no"}, {"bogus": 1}, {"id": "auto_x"}):
        with pytest.raises(InvalidRequest):
            bench.desk.automations.change(bench.project, automation.id, values, actor="Bob")
    assert bench.load(automation) == automation


def test_deleted_automation_leaves_its_jobs(bench: Bench) -> None:
    automation = bench.create()
    job = bench.run(automation)
    bench.desk.automations.delete(bench.project.id, automation.id, actor="Bob")
    with pytest.raises(AutomationNotFound):
        bench.load(automation)
    assert bench.desk.jobs.get(bench.project.id, job.id).automation_id == automation.id
    assert list_actions(bench)[0] == ("Bob", "automation.deleted")


def test_automation_of_another_project_is_not_found(bench: Bench) -> None:
    automation = bench.create()
    other = bench.desk.projects.create("Other", repository=str(bench.repository), ref="main", actor="test")
    service = bench.desk.automations
    for call in (
        lambda: service.get(other.id, automation.id),
        lambda: service.change(other, automation.id, {"name": "x"}, actor="Eve"),
        lambda: service.delete(other.id, automation.id, actor="Eve"),
        lambda: service.run_now(other, automation.id, actor="Eve"),
        lambda: service.list_runs(other.id, automation.id),
    ):
        with pytest.raises(AutomationNotFound):
            call()
    assert bench.load(automation) == automation
    assert service.list_for_project(other.id) == []


@pytest.mark.deep
def test_project_has_at_most_a_hundred_automations(bench: Bench) -> None:
    for number in range(100):
        bench.create(name=f"{number}")
    with pytest.raises(TooManyAutomations):
        bench.create()


def test_run_is_a_job_of_the_automation(bench: Bench) -> None:
    automation = bench.create(name="Fix spelling")
    job = bench.run(automation)
    assert job.automation_id == automation.id
    assert job.created_by == Creator(kind=CreatorKind.AUTOMATION, name="Fix spelling", id=automation.id)
    assert (job.status, job.prompt) == (ACTIVE, "Replace colour with color.")
    [listed] = bench.desk.automations.list_for_project(bench.project.id)
    assert listed.last_run is not None
    assert (listed.last_run.job_id, listed.last_run.outcome) == (job.id, Outcome.RUNNING)


def test_disabled_automation_is_not_triggered_but_a_person_can_run_it(bench: Bench) -> None:
    automation = bench.create(enabled=False)
    with pytest.raises(AutomationDisabled):
        bench.desk.automations.run_now(bench.project, automation.id, actor="ci", require_enabled=True)
    assert bench.list_jobs() == []
    bench.run(automation)
    assert len(bench.list_jobs()) == 1


@pytest.mark.parametrize(
    ("pull_state", "reason", "outcome"),
    [
        ("open", None, Outcome.REVIEW_NEEDED),
        ("merged", None, Outcome.MERGED),
        ("closed", None, Outcome.CLOSED),
        (None, "no_changes", Outcome.NOTHING_TO_DO),
        (None, "question", Outcome.REVIEW_NEEDED),
        (None, "model_error", Outcome.FAILED),
        ("open", "checks_failed", Outcome.FAILED),
    ],
)
def test_outcome_follows_the_job(bench: Bench, pull_state: str | None, reason: str | None, outcome: Outcome) -> None:
    automation = bench.create()
    bench.finish(bench.run(automation).id, pull_state, reason)
    [run], _ = bench.desk.automations.list_runs(bench.project.id, automation.id)
    assert run.outcome == outcome


def test_runs_are_listed_in_pages(bench: Bench) -> None:
    automation = bench.create(grouping="new")
    made = [bench.run(automation).id for _ in range(5)]
    first, cursor = bench.desk.automations.list_runs(bench.project.id, automation.id, limit=3)
    rest, end = bench.desk.automations.list_runs(bench.project.id, automation.id, limit=3, cursor=cursor)
    assert [run.job_id for run in [*first, *rest]] == made[::-1]
    assert end is None


def test_deleted_project_takes_its_automations_along(bench: Bench) -> None:
    bench.run(bench.create())
    bench.create(trigger=SCHEDULE)
    bench.desk.delete_project(bench.project, actor="Ada")
    assert bench.desk.projects.all() == []


def test_context_repository_that_the_project_does_not_have_is_refused(bench: Bench) -> None:
    automation = bench.create()
    with pytest.raises(InvalidRequest, match="no context repository 'sdk'") as refused:
        bench.create(context=["sdk"])
    assert [detail.field for detail in refused.value.details] == ["context"]
    with pytest.raises(InvalidRequest, match="no context repository 'sdk'"):
        bench.desk.automations.change(bench.project, automation.id, {"context": ["sdk"]}, actor="Ada")
    assert bench.create(context=[]).definition.context == []


def test_same_nonce_and_fields_create_one_automation(bench: Bench) -> None:
    nonce = new_id("auto")
    fields = {"name": "Nightly", "prompt": "Go.", "trigger": {"type": "api"}}
    created = [bench.desk.automations.create(bench.project, fields, actor="Ada", nonce=nonce) for _ in range(3)]
    assert len({automation.id for automation in created}) == 1
    assert created[0] == bench.load(created[0])
    other = bench.desk.automations.create(bench.project, {**fields, "name": "B"}, actor="Ada", nonce=nonce)
    assert other.id != created[0].id
    assert list_actions(bench) == [("Ada", "automation.created")] * 2
    second_project = bench.desk.projects.create("B", repository=str(bench.repository), ref="main", actor="test")
    theirs = bench.desk.automations.create(second_project, fields, actor="Eve", nonce=nonce)
    assert theirs.project_id == second_project.id
    assert theirs.id != created[0].id


def test_repository_of_a_trigger_must_exist_and_stays_while_the_trigger_names_it(bench: Bench) -> None:
    follow = {"type": "code_change", "repositories": ["code"]}
    with pytest.raises(InvalidRequest, match="no context repository 'code'"):
        bench.create(trigger=follow)
    bench.desk.contexts.add(bench.project, NewContext("code", str(bench.repository)), actor="Ada")
    automation = bench.create(trigger=follow)
    with pytest.raises(ContextInUse, match="The automation “Nightly” watches code"):
        bench.desk.contexts.remove(bench.project.id, "code", actor="Ada")
    assert [each.name for each in bench.desk.contexts.list(bench.project.id)] == ["code"]
    bench.desk.automations.change(bench.project, automation.id, {"trigger": {"type": "api"}}, actor="Ada")
    bench.desk.contexts.remove(bench.project.id, "code", actor="Ada")
    with pytest.raises(InvalidRequest, match="no context repository 'code'"):
        bench.desk.automations.change(bench.project, automation.id, {"trigger": follow}, actor="Ada")
