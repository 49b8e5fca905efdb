"""Automations on the dashboard: the list, the form, the switch, runs and deletion."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import insert, update

from copydesk.automations.automation import Automation, Notice, NoticeCode
from copydesk.automations.definition import AutomationDefinition
from copydesk.automations.kinds import Kind
from copydesk.automations.tables import automations
from copydesk.core import audit_log, clock
from copydesk.jobs.job import COMPLETED
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.storage.tables import jobs, messages, review_waits, runs
from copydesk.web.dashboard.automations.automation_pages import RUNS_PER_PAGE
from copydesk.web.dashboard.automations.form_values import values_for_kind, values_from_definition
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

HOSTILE = "<script>alert(1)</script>\"'&"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;"
CUSTOM = {"name": "Spelling", "prompt": "Replace colour with color.", "trigger": {"type": "api"}}
FORM = {
    "name": "Spelling", "kind": "custom", "prompt": "Replace colour with color.", "trigger": "schedule",
    "cron": "0 6 * * 1", "timezone": "Europe/Berlin", "code_paths": "", "content_paths": "", "tags": "",
    "mode": "pull_request", "grouping": "new", "paths": "", "max_lines": "100", "reviewers": "", "model": "",
    "daily_limit": "20", "monthly_cost_usd": "", "enabled": "true",
}  # fmt: skip


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour.\n"})
    make_repository(tmp_path / "code.git", {"cli.py": b"x = 1\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as running:
        yield running


@pytest.fixture
def editor(service: Service) -> httpx.Client:
    return signed_in_client(service, "editor")


def page_of(service: Service, automation: Automation | None = None) -> str:
    base = f"/projects/{service.project.id}/automations"
    return f"{base}/{automation.id}" if automation else base


def create(service: Service, **fields: Any) -> Automation:
    return service.desk.automations.create(service.project, {**CUSTOM, **fields}, actor="test")


def send(client: httpx.Client, path: str, **fields: Any) -> httpx.Response:
    token = csrf_token_from_html(client.get("/account").text)
    return client.post(path, data={"token": token, **fields})


def send_new(client: httpx.Client, service: Service, **fields: Any) -> httpx.Response:
    return send(client, f"{page_of(service)}/new", **{**FORM, **fields})


def send_edit(client: httpx.Client, service: Service, automation: Automation, **fields: Any) -> httpx.Response:
    page = f"{page_of(service, automation)}/edit"
    version = re.search(r'name="updated_at" value="(\d+)"', client.get(page).text)
    assert version
    return send(client, page, **{**FORM, "updated_at": version[1], **fields})


def load(service: Service, automation: Automation) -> Automation:
    return service.desk.automations.get(service.project.id, automation.id).automation


def load_only(service: Service) -> Automation:
    [(automation, _)] = service.desk.automations.list_for_project(service.project.id)
    return automation


def finish_job(service: Service, job_id: str, **values: Any) -> None:
    """Ends the job and its run, as a worker would."""
    with service.desk.database.write() as tx:
        tx.execute(update(jobs).where(jobs.c.id == job_id).values(status=COMPLETED, **values))
        told = {name: values.get(name) for name in ("reason", "message")}
        done = update(runs).where(runs.c.job_id == job_id).values(state="done", **told)
        run_id = tx.execute(done.returning(runs.c.id)).scalar_one()
        tx.execute(update(messages).where(messages.c.job_id == job_id).values(run_id=run_id))


def test_empty_page_explains_automations_and_offers_every_kind(service: Service, editor: httpx.Client) -> None:
    html = editor.get(page_of(service)).text
    assert "An automation is a saved instruction with a trigger" in html
    assert "This project has no automation." in html
    for kind in Kind:
        assert f'href="{page_of(service)}/new?kind={kind}"' in html
    viewer = signed_in_client(service, "viewer").get(page_of(service)).text
    assert "An editor can create one here." in viewer
    assert "new?kind=" not in viewer


def test_tab_leads_to_the_automations(service: Service) -> None:
    html = signed_in_client(service, "viewer").get(f"/projects/{service.project.id}/jobs").text
    assert f'<a href="{page_of(service)}">Automations</a>' in html


def test_list_shows_trigger_state_outcome_and_notice(service: Service, editor: httpx.Client) -> None:
    weekly = {"type": "schedule", "cron": "0 6 * * 1", "timezone": "Europe/Berlin"}
    automation = create(service, kind="broken_links", trigger=weekly, prompt="")
    notice = vars(Notice(NoticeCode.DAILY_LIMIT, f"The limit is reached. {HOSTILE}", clock.now()))
    fired = service.desk.automations.run_now(service.project, automation.id, actor="Ada")
    with service.desk.database.write() as tx:
        tx.execute(update(automations).where(automations.c.id == automation.id).values(notice=notice))
    html = editor.get(page_of(service)).text
    assert "Broken links" in html
    assert "Mondays at 06:00 Europe/Berlin" in html
    assert f"The limit is reached. {ESCAPED}" in html
    job_link = f'<a href="/projects/{service.project.id}/jobs/{fired.job_id}">'
    assert f'{job_link}<span class="state active">Running</span></a>' in html
    finish_job(service, fired.job_id, pr_link="https://forge.example/pull/1", pull_state="open")
    assert f'{job_link}<span class="state warn">Review needed</span></a>' in editor.get(page_of(service)).text
    assert automation.next_slot_at is not None
    assert f'datetime="{clock.format_iso(automation.next_slot_at)}"' in html
    assert "Switch off" not in signed_in_client(service, "viewer").get(page_of(service)).text


def test_switch_turns_an_automation_off_and_on(service: Service, editor: httpx.Client) -> None:
    automation = create(service)
    off = send(editor, f"{page_of(service, automation)}/switch", enabled="false")
    assert (off.status_code, off.headers["location"]) == (303, page_of(service))
    assert not load(service, automation).definition.enabled
    html = editor.get(page_of(service)).text
    assert "Spelling is off." in html
    assert 'aria-label="Switch on Spelling"' in html
    on = send(editor, f"{page_of(service, automation)}/switch", enabled="true", **{"from": "page"})
    assert on.headers["location"] == page_of(service, automation)
    assert load(service, automation).definition.enabled


def test_automation_whose_model_is_gone_can_be_switched_off(service: Service, editor: httpx.Client) -> None:
    automation = create(service)
    stored = {**automation.definition.to_stored(), "model": "gone-model"}
    with service.desk.database.write() as tx:
        tx.execute(update(automations).where(automations.c.id == automation.id).values(definition=stored))
    switch = f"{page_of(service, automation)}/switch"
    assert send(editor, switch, enabled="false").status_code == 303
    assert not load(service, automation).definition.enabled
    refused = send(editor, switch, enabled="true")
    assert refused.status_code == 400
    assert "This project cannot use the model &#39;gone-model&#39;." in refused.text
    assert "<option selected>gone-model</option>" in editor.get(f"{page_of(service, automation)}/edit").text


@pytest.mark.parametrize("kind", list(Kind))
def test_form_of_a_kind_keeps_its_defaults(service: Service, kind: Kind) -> None:
    typed = {"name": "Own", "prompt": "Do it."} if kind is Kind.CUSTOM else {}
    values = {**values_for_kind(kind).to_definition(), **typed}
    trigger = {"trigger": values["trigger"]} if kind is Kind.CUSTOM else {}
    defaults = AutomationDefinition.model_validate({"kind": kind, **typed, **trigger})
    definition = AutomationDefinition.model_validate({**values, "grouping": defaults.grouping})
    assert definition == defaults
    assert values_from_definition(definition).to_definition() == values | {"grouping": defaults.grouping}


def test_new_form_is_filled_from_the_kind(service: Service, editor: httpx.Client) -> None:
    html = editor.get(f"{page_of(service)}/new?kind=broken_links").text
    assert 'value="Broken links"' in html
    assert '<option value="broken_links" selected>' in html
    assert '<input type="radio" name="trigger" value="schedule" checked>' in html
    unknown = editor.get(f"{page_of(service)}/new?kind=<script>")
    assert (unknown.status_code, "<script>" in unknown.text.replace("<script src", "")) == (200, False)


def test_created_automation_has_the_values_of_the_form(service: Service, editor: httpx.Client) -> None:
    created = send_new(
        editor, service, reviewers="authors, octocat", monthly_cost_usd="2.50", daily_limit="3", draft="true"
    )
    automation = load_only(service)
    assert (created.status_code, created.headers["location"]) == (303, page_of(service, automation))
    definition = automation.definition
    assert definition.trigger.model_dump() == {"type": "schedule", "cron": "0 6 * * 1", "timezone": "Europe/Berlin"}
    assert definition.reviewers == ["authors", "octocat"]
    assert (definition.monthly_cost_usd, definition.daily_limit, definition.draft) == (2.5, 3, True)
    assert definition.enabled
    html = editor.get(page_of(service, automation)).text
    assert "Created. It runs: Mondays at 06:00 Europe/Berlin. The next run is on Mon " in html


def test_only_the_fields_of_the_chosen_trigger_are_used(service: Service, editor: httpx.Client, tmp_path: Path) -> None:
    service.desk.contexts.add(service.project, NewContext("api", str(tmp_path / "code.git")), actor="test")
    fields = {
        "cron": "not a schedule",
        "tags": "v*",
        "code_repositories": ["api"],
        "code_paths": "src/**\n\n lib/** \n",
    }
    assert send_new(editor, service, trigger="code_change", **fields).status_code == 303
    trigger = load_only(service).definition.trigger.model_dump()
    assert trigger == {"type": "code_change", "repositories": ["api"], "paths": ["src/**", "lib/**"]}


def test_repositories_are_offered_or_lead_to_the_context_page(
    service: Service, editor: httpx.Client, tmp_path: Path
) -> None:
    context_page = f'href="/projects/{service.project.id}/context"'
    assert context_page in editor.get(f"{page_of(service)}/new").text
    service.desk.contexts.add(service.project, NewContext("api", str(tmp_path / "code.git")), actor="test")
    html = editor.get(f"{page_of(service)}/new").text
    assert '<input type="checkbox" name="code_repositories" value="api">' in html
    assert context_page not in html
    service.desk.contexts.add(service.project, NewContext("gone", str(tmp_path / "code.git")), actor="test")
    automation = create(service, context=["gone"])
    service.desk.contexts.remove(service.project.id, "gone", actor="test")
    removed = editor.get(f"{page_of(service, automation)}/edit").text
    assert '<input type="checkbox" name="context" value="gone" checked>' in removed
    assert '<span class="lacking">(removed)</span>' in removed


@pytest.mark.parametrize(
    ("fields", "input_name", "fault"),
    [
        ({"name": "   "}, "name", "Enter a name"),
        ({"prompt": ""}, "prompt", "A custom automation needs a prompt."),
        ({"cron": "0 25 * * *"}, "cron", "is not a schedule"),
        ({"cron": ""}, "cron", "Enter five fields"),
        ({"trigger": "content_update", "content_paths": "a\n" * 51}, "content_paths", "at most 50"),
        ({"timezone": "Mars/Olympus"}, "timezone", "Unknown time zone"),
        ({"trigger": "code_change", "code_paths": "/etc"}, "code_paths", "is not a path pattern"),
        ({"trigger": "content_update", "content_paths": "../x"}, "content_paths", "is not a path pattern"),
        ({"trigger": "release", "tags": "v" * 101}, "tags", "at most 100 characters"),
        ({"trigger": "release", "release_repositories": ["a b"]}, "release_repositories", "context repositories"),
        ({"trigger": "code_change", "code_repositories": ["sdk"]}, "code_repositories", "no context repository 'sdk'"),
        ({"trigger": "elsewhere"}, "trigger", "Choose one of the options."),
        ({"kind": "elsewhere"}, "kind", "Choose one of the kinds."),
        ({"mode": "force"}, "mode", "Choose one of the options."),
        ({"paths": "docs\\x"}, "paths", "is not a path pattern"),
        ({"max_lines": "0"}, "max_lines", "whole number from 1 to 10,000"),
        ({"daily_limit": "many"}, "daily_limit", "whole number from 1 to 1,000"),
        ({"monthly_cost_usd": "nan"}, "monthly_cost_usd", "amount in US dollars"),
        ({"reviewers": "a!b"}, "reviewers", "user names of the forge"),
        ({"model": "gpt-nowhere"}, "model", "This project cannot use the model"),
    ],
)
def test_error_is_beside_its_field_and_typed_values_survive(
    service: Service, editor: httpx.Client, fields: dict[str, str], input_name: str, fault: str
) -> None:
    refused = send_new(editor, service, **{"prompt": f"Mind {HOSTILE}", **fields})
    assert refused.status_code == 400
    shown = re.search(f'<span class="fault" id="{input_name}-fault"><strong>Error:</strong> (.*?)</span>', refused.text)
    assert shown, refused.text
    assert fault in unescape(shown[1])
    assert not re.search("String should|Input should|List should|Value error", shown[1])
    assert HOSTILE not in refused.text
    if "prompt" not in fields:
        assert f"Mind {ESCAPED}" in refused.text
    if input_name not in (
        "kind",
        "mode",
        "trigger",
        "release_repositories",
        "code_repositories",
    ):  # an unknown choice cannot be shown
        assert fields[input_name].strip() in unescape(refused.text)
    assert service.desk.automations.list_for_project(service.project.id) == []


def test_kind_that_the_model_cannot_do_says_so(service: Service, editor: httpx.Client) -> None:
    refused = send_new(editor, service, kind="typos", prompt="", model="")
    assert refused.status_code == 400
    assert "The mechanic cannot do &#39;typos&#39;. Choose a language model" in refused.text


def test_edit_changes_only_what_differs_and_keeps_the_rest(service: Service, editor: httpx.Client) -> None:
    automation = create(service, context=[], enabled=False, reviewers=["octocat"])
    form = values_from_definition(automation.definition)
    saved = send_edit(editor, service, automation, **{**form.texts, "name": "Words"})
    assert (saved.status_code, saved.headers["location"]) == (303, page_of(service, automation))
    expected = automation.definition.model_copy(update={"name": "Words"})
    assert load(service, automation).definition == expected
    [entry] = audit_log.list_entries(service.desk.database, service.project.id, 1)
    assert entry["details"] == {"name": "Spelling", "fields": ["name"]}


def test_edit_of_an_automation_that_changed_meanwhile_is_refused_once(service: Service, editor: httpx.Client) -> None:
    automation = create(service)
    clock_before = str(automation.updated_at - 1)
    refused = send(editor, f"{page_of(service, automation)}/edit", **FORM, updated_at=clock_before)
    assert refused.status_code == 400
    assert "was changed after you opened this page" in refused.text
    assert load(service, automation).definition == automation.definition
    assert send_edit(editor, service, automation).status_code == 303


@pytest.mark.deep
def test_only_an_administrator_saves_an_automation_that_pushes(service: Service, editor: httpx.Client) -> None:
    refused = send_new(editor, service, mode="merge")
    assert refused.status_code == 400
    assert "Only an administrator can save an automation that pushes without a review." in refused.text
    admin = signed_in_client(service)
    assert send_new(admin, service, mode="merge", paths="docs/**", max_lines="5").status_code == 303
    automation = load_only(service)
    assert (automation.definition.mode, automation.definition.paths) == ("merge", ["docs/**"])
    assert send_edit(editor, service, automation, mode="merge", prompt="Something else.").status_code == 400
    assert load(service, automation).definition == automation.definition


@pytest.mark.deep
def test_run_now_starts_a_job_that_names_the_automation(service: Service, editor: httpx.Client) -> None:
    automation = create(service, name=f"Words {HOSTILE}")
    page = page_of(service, automation)
    started = send(editor, f"{page}/run")
    assert (started.status_code, started.headers["location"]) == (303, page)
    [run], _ = service.desk.automations.list_runs(service.project.id, automation.id)
    assert run.trigger["text"] == "Started by Editor."
    assert service.desk.jobs.read_data(run.job_id) == "Started by Editor."
    html = editor.get(page).text
    assert "Started a run." in html
    assert "Started by Editor." in html
    assert f'href="/projects/{service.project.id}/jobs/{run.job_id}"' in html
    by_automation = f'automation <a href="{page}" dir="auto">Words {ESCAPED}</a>'
    job_pages = [f"/projects/{service.project.id}/jobs", f"/projects/{service.project.id}/jobs/{run.job_id}"]
    for path in job_pages:
        assert by_automation in editor.get(path).text
    service.desk.automations.delete(service.project.id, automation.id, actor="test")
    for path in job_pages:
        assert f"<bdi>automation Words {ESCAPED}</bdi>" in editor.get(path).text


def test_reached_limit_is_shown_when_a_person_starts_a_run(service: Service, editor: httpx.Client) -> None:
    automation = create(service, dailyLimit=1)
    page = page_of(service, automation)
    assert send(editor, f"{page}/run").status_code == 303
    refused = send(editor, f"{page}/run")
    assert refused.status_code == 429
    assert "The limit of 1 run per day is reached." in refused.text


def test_runs_show_outcome_message_and_pull_request(service: Service, editor: httpx.Client) -> None:
    automation = create(service)
    outcomes = [
        ({"pr_link": "https://forge.example/pull/1", "pull_state": "merged"}, "Merged"),
        ({"pr_link": "https://forge.example/pull/2", "pull_state": "closed"}, "Closed"),
        ({"reason": "no_changes", "message": f"Nothing. {HOSTILE}"}, "Nothing to do"),
        ({"reason": "model_error", "message": "The model failed."}, "Failed"),
        ({"pr_link": "javascript:alert(1)", "pull_state": "open"}, "Review needed"),
    ]
    for values, _ in outcomes:
        fired = service.desk.automations.run_now(service.project, automation.id, actor="Ada")
        finish_job(service, fired.job_id, **values)
    html = editor.get(page_of(service, automation)).text
    shown = re.findall(r'<td><span class="state \w+">([^<]+)</span></td>', html)
    assert shown == [words for _, words in reversed(outcomes)]
    assert f"Nothing. {ESCAPED}" in html
    assert 'href="https://forge.example/pull/1"' in html
    assert "javascript:" not in html


@pytest.mark.deep
def test_runs_are_paged(service: Service, editor: httpx.Client) -> None:
    automation = create(service, dailyLimit=1000)
    service.desk.projects.change(service.project.id, {"max_open_pull_requests": "50"}, actor="test")
    project = service.desk.projects.get(service.project.id)
    for _ in range(RUNS_PER_PAGE + 2):
        service.desk.automations.run_now(project, automation.id, actor="Ada")
    page = page_of(service, automation)
    first = editor.get(page).text
    assert first.count("Started by Ada.</td>") == RUNS_PER_PAGE
    older = re.search(rf'href="{page}(\?cursor=arun_\w+)#runs" rel="next"', first)
    assert older
    assert editor.get(page + older[1]).text.count("Started by Ada.</td>") == 2
    assert editor.get(f"{page}?cursor=wrong").text.count("Started by Ada.</td>") == RUNS_PER_PAGE


def test_deletion_asks_first_and_keeps_the_jobs(service: Service, editor: httpx.Client) -> None:
    automation = create(service)
    fired = service.desk.automations.run_now(service.project, automation.id, actor="Ada")
    page = page_of(service, automation)
    assert "Delete “Spelling”?" in editor.get(f"{page}/delete").text
    deleted = send(editor, f"{page}/delete")
    assert (deleted.status_code, deleted.headers["location"]) == (303, page_of(service))
    assert "Deleted Spelling. Its jobs and pull requests remain." in editor.get(page_of(service)).text
    assert editor.get(page).status_code == 404
    assert service.desk.jobs.get(service.project.id, fired.job_id).automation_id == automation.id


def test_audit_log_tells_of_automations_in_sentences(service: Service, editor: httpx.Client) -> None:
    send_new(editor, service)
    automation = load_only(service)
    send(editor, f"{page_of(service, automation)}/switch", enabled="false")
    send(editor, f"{page_of(service, automation)}/run")
    send(editor, f"{page_of(service, automation)}/delete")
    html = re.sub(r"<[^>]+>", "", editor.get(f"/projects/{service.project.id}/audit").text)
    for sentence in (
        "created the automation Spelling",
        "changed enabled of the automation Spelling",
        "started a run of the automation Spelling",
        "deleted the automation Spelling",
    ):
        assert sentence in html


def test_viewer_sees_details_and_no_button(service: Service) -> None:
    automation = create(service, prompt=f"Do this. {HOSTILE}", mode="merge", paths=["docs/**"], monthlyCostUsd=5)
    html = signed_in_client(service, "viewer").get(page_of(service, automation)).text
    assert f"Do this. {ESCAPED}" in html
    assert "Push to the branch without a review" in html
    assert "20 runs per day, $5.00 per month" in html
    for label in ("Run now", "Switch off", "Edit</a>", "Delete…"):
        assert label not in html


def add_code(service: Service) -> None:
    code = service.repository.parent / "code.git"
    service.desk.contexts.add(service.project, NewContext("code", str(code)), actor="test")


@pytest.mark.deep
def test_form_chooses_what_the_agent_reads(service: Service, editor: httpx.Client) -> None:
    add_code(service)
    page = editor.get(f"{page_of(service)}/new?kind=custom").text
    assert re.search(r'name="context_scope" value="all" checked', page)
    assert 'name="context" value="code"' in page
    assert send_new(editor, service, context_scope="some", context="code").status_code == 303
    automation = load_only(service)
    assert automation.definition.context == ["code"]
    assert 'name="context" value="code" checked' in editor.get(f"{page_of(service, automation)}/edit").text
    send_edit(editor, service, automation, context_scope="some")
    assert load(service, automation).definition.context == []
    send_edit(editor, service, automation, context_scope="all", context="code")
    assert load(service, automation).definition.context is None


def test_unknown_context_repository_is_named_beside_its_input(service: Service, editor: httpx.Client) -> None:
    add_code(service)
    response = send_new(editor, service, context_scope="some", context="sdk")
    assert response.status_code == 400
    assert "This project has no context repository &#39;sdk&#39;. It has code." in response.text
    assert 'id="context-fault"' in response.text
    assert service.desk.automations.list_for_project(service.project.id) == []


@pytest.mark.deep
def test_form_sent_twice_creates_one_automation(service: Service, editor: httpx.Client) -> None:
    nonce = re.search(r'name="nonce" value="([^"]+)"', editor.get(f"{page_of(service)}/new").text)
    assert nonce
    first, second = (send_new(editor, service, nonce=nonce[1]) for _ in range(2))
    assert (first.status_code, second.status_code) == (303, 303)
    assert first.headers["location"] == second.headers["location"]
    assert len(service.desk.automations.list_for_project(service.project.id)) == 1
    send_new(editor, service, nonce=nonce[1], name="Another")
    assert len(service.desk.automations.list_for_project(service.project.id)) == 2, "other entries are another one"
    for invalid in ("", "x", "auto_", HOSTILE):
        assert send_new(editor, service, nonce=invalid).status_code == 303


def test_form_with_an_error_keeps_its_nonce(service: Service, editor: httpx.Client) -> None:
    nonce = re.search(r'name="nonce" value="([^"]+)"', editor.get(f"{page_of(service)}/new").text)
    assert nonce
    assert f'name="nonce" value="{nonce[1]}"' in send_new(editor, service, nonce=nonce[1], max_lines="x").text


@pytest.mark.deep
def test_waiting_pull_request_is_marked_in_the_lists(service: Service, editor: httpx.Client) -> None:
    automation = create(service)
    job_id = service.desk.automations.run_now(service.project, automation.id, actor="test").job_id
    since = clock.now() - 16 * clock.DAY
    with service.desk.database.write() as tx:
        tx.execute(update(jobs).values(status=COMPLETED, pull_state="open", pr_link=f"{service.url}/review/x/pulls/1"))
        tx.execute(update(runs).values(state="done"))
        tx.execute(insert(review_waits).values(job_id=job_id, waiting_since=since, mentioned_at=clock.now()))
    for path in (page_of(service), f"/projects/{service.project.id}/jobs"):
        assert "waiting for review for 16 days" in editor.get(path).text
    with service.desk.database.write() as tx:
        tx.execute(update(jobs).values(pull_state="merged"))
    assert "waiting for review" not in editor.get(page_of(service)).text
