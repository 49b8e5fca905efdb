"""Automations that files of the branch define: created, changed, paused and deleted with their files."""

import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from copydesk.automations.automation import Outcome
from copydesk.automations.files.readings import MAX_FILES
from copydesk.automations.firing import AutomationNotFound
from copydesk.automations.service import AutomationDisabled, AutomationInFile
from copydesk.automations.tables import automation_files
from copydesk.automations.triggers.looks import OwnHead, WatchedRepository
from copydesk.core import audit_log, clock
from copydesk.core.projects.projects import Project
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.publish.git.git_command import Git
from tests.automations.files.conftest import LINKS, LINKS_TEXT, FilesBench
from tests.automations.killed_triggers import TriggerOrders, run_trigger_process
from tests.support.processes import forkserver

OTHER = ".copydesk/automations/other.md"
CUSTOM = b"---\nname: Spelling\nenabled: true\ntrigger: {type: api}\n---\nReplace colour with color.\n"
ON_UPDATE = CUSTOM.replace(b"type: api", b"type: content_update")
BROKEN = b"---\nkind: broken_links\ndailyLimit: many\n---\n"


def test_files_are_not_read_unless_the_project_says_so(files: FilesBench) -> None:
    files.set(automation_files="false")
    files.push_and_look({LINKS: LINKS_TEXT})
    assert files.list_all() == []
    files.set(automation_files="true")
    files.watch.look()
    assert files.only().definition.name == "Broken links"


def test_file_creates_an_automation_with_the_fields_of_the_api(files: FilesBench) -> None:
    commit = files.push_and_look({LINKS: LINKS_TEXT, "docs/more.md": b"# More\n"})
    automation = files.only()
    definition = automation.definition
    assert (definition.kind, definition.prompt, definition.daily_limit) == ("broken_links", "Only in docs/.", 5)
    assert definition.enabled
    assert automation.next_slot_at is not None
    assert automation.source is not None
    assert (automation.source.file, automation.source.commit) == (LINKS, commit)
    assert (files.state.commit, files.state.branch, files.problems()) == (commit, "main", {})


def test_file_without_enabled_makes_an_automation_that_is_off(files: FilesBench) -> None:
    files.push_and_look({LINKS: b"---\nkind: broken_links\n---\n"})
    assert (files.only().definition.enabled, files.only().next_slot_at) == (False, None)


@pytest.mark.deep
def test_edited_file_keeps_the_id_the_runs_and_the_open_pull_request(files: FilesBench) -> None:
    files.push_and_look({LINKS: CUSTOM.replace(b"enabled", b"grouping: append\nenabled")})
    before = files.only()
    job = files.bench.run(before)
    files.bench.finish(job.id, "open")
    commit = files.push_and_look({LINKS: CUSTOM.replace(b"Spelling", b"Words\ngrouping: append")})
    after = files.only()
    assert (after.id, after.definition.name, after.created_at) == (before.id, "Words", before.created_at)
    assert after.source is not None
    assert after.source.commit == commit
    assert files.bench.run(after).id == job.id
    runs, _ = files.bench.desk.automations.list_runs(files.bench.project.id, after.id)
    assert len(runs) == 2


def test_renamed_file_is_another_automation(files: FilesBench) -> None:
    files.push_and_look({LINKS: LINKS_TEXT})
    before = files.only()
    files.push_and_look({LINKS: None, ".copydesk/automations/weekly.md": LINKS_TEXT})
    assert files.only().id != before.id


@pytest.mark.deep
def test_deleted_file_deletes_the_automation_and_keeps_its_jobs(files: FilesBench) -> None:
    files.push_and_look({LINKS: CUSTOM})
    automation = files.only()
    job = files.bench.run(automation)
    files.push_and_look({LINKS: None})
    assert files.list_all() == []
    with pytest.raises(AutomationNotFound):
        files.bench.load(automation)
    assert files.bench.desk.jobs.get(files.bench.project.id, job.id).automation_id == automation.id
    files.push_and_look({LINKS: CUSTOM})
    assert files.only().id == automation.id


@pytest.mark.deep
def test_same_commit_is_read_once(files: FilesBench) -> None:
    files.push_and_look({LINKS: LINKS_TEXT})
    before, state = files.only(), files.state
    for _ in range(3):
        files.watch.look()
    assert (files.only(), files.state) == (before, state)


def test_commit_that_leaves_the_file_alone_leaves_the_automation_alone(files: FilesBench) -> None:
    files.push_and_look({LINKS: LINKS_TEXT})
    before = files.only()
    commit = files.push_and_look({"docs/index.md": b"# Hi\n"})
    assert files.only() == before
    assert files.state.commit == commit


def test_invalid_file_does_not_stop_the_others_and_says_where_it_is_wrong(files: FilesBench) -> None:
    bad = ".copydesk/automations/bad.md"
    files.push_and_look({LINKS: LINKS_TEXT, bad: BROKEN})
    assert files.only().definition.name == "Broken links"
    [file] = files.state.invalid_files
    assert (file.path, file.automation_id) == (bad, None)
    [problem] = file.problems
    assert problem.line == 3
    assert problem.message.startswith("dailyLimit: Input should be a valid integer")


@pytest.mark.deep
def test_file_that_becomes_invalid_pauses_its_automation_until_it_is_fixed(files: FilesBench) -> None:
    files.push_and_look({LINKS: LINKS_TEXT})
    automation = files.only()
    files.push_and_look({LINKS: BROKEN})
    paused = files.only()
    assert (paused.id, paused.definition.enabled, paused.next_slot_at) == (automation.id, False, None)
    assert paused.definition == automation.definition.model_copy(update={"enabled": False})
    assert paused.source is not None
    assert paused.source.problem is not None
    assert paused.source.problem.startswith("Line 3: dailyLimit: ")
    project = files.bench.desk.projects.get(files.bench.project.id)
    with pytest.raises(AutomationDisabled):
        files.bench.desk.automations.run_now(project, paused.id, actor="Ada", require_enabled=True)
    files.push_and_look({LINKS: LINKS_TEXT})
    fixed = files.only()
    assert (fixed.definition, fixed.id) == (automation.definition, automation.id)
    assert fixed.next_slot_at is not None
    assert fixed.source is not None
    assert fixed.source.problem is None


def test_unknown_context_repository_is_a_problem_until_it_is_added(files: FilesBench) -> None:
    follow = b"---\nname: Follow\ntrigger: {type: code_change, repositories: [code]}\n---\nReplace a with b.\n"
    files.push_and_look({LINKS: follow})
    assert files.list_all() == []
    [message] = files.problems()["links.md"]
    assert message.startswith("This project has no context repository named code. It has none.")
    files.bench.desk.contexts.add(files.bench.project, NewContext("code", str(files.bench.repository)), actor="test")
    files.watch.look()
    assert (files.only().definition.name, files.problems()) == ("Follow", {})


def test_automation_of_a_file_is_paused_when_the_repository_that_it_watches_is_removed(files: FilesBench) -> None:
    follow = (
        b"---\nname: Follow\nenabled: true\ntrigger: {type: release, repositories: [code]}\n---\nReplace a with b.\n"
    )
    files.bench.desk.contexts.add(files.bench.project, NewContext("code", str(files.bench.repository)), actor="test")
    files.push_and_look({LINKS: follow})
    files.bench.desk.contexts.remove(files.bench.project.id, "code", actor="test")
    files.watch.look()
    paused = files.only()
    assert paused.source is not None
    assert paused.source.problem is not None
    assert (paused.definition.enabled, "no context repository named code" in paused.source.problem) == (False, True)


def test_model_that_the_project_cannot_use_is_a_problem(files: FilesBench) -> None:
    files.push_and_look({LINKS: b"---\nkind: broken_links\nmodel: openai:gpt-x\n---\n"})
    [message] = files.problems()["links.md"]
    assert message.startswith("This project cannot use the model 'openai:gpt-x'.")


@pytest.mark.deep
def test_only_the_first_files_are_read_and_the_others_are_paused(files: FilesBench) -> None:
    names = [f".copydesk/automations/{number:02}.md" for number in range(MAX_FILES)]
    files.push_and_look(dict.fromkeys(names, LINKS_TEXT))
    assert (len(files.list_all()), files.problems()) == (MAX_FILES, {})
    files.push_and_look({".copydesk/automations/00-first.md": LINKS_TEXT})
    assert len(files.list_all()) == MAX_FILES + 1
    paused = [each.source.file for each in files.list_all() if each.source and each.source.problem]
    assert paused == [names[-1]]
    [message] = files.problems()["automations"]
    assert message.startswith(f"The folder has {MAX_FILES + 1} files.")


@pytest.mark.deep
def test_project_with_too_many_automations_refuses_further_files(files: FilesBench) -> None:
    for _ in range(98):
        files.bench.create()
    names = [f".copydesk/automations/{number}.md" for number in range(4)]
    files.push_and_look(dict.fromkeys(names, LINKS_TEXT))
    assert len(files.list_all()) == 100
    assert list(files.problems()) == ["2.md", "3.md"]
    assert files.problems()["3.md"][0].startswith("The project has too many automations")


def test_automation_of_a_file_can_be_changed_and_deleted_only_there(files: FilesBench) -> None:
    files.push_and_look({LINKS: CUSTOM})
    automation, service = files.only(), files.bench.desk.automations
    with pytest.raises(AutomationInFile, match=r"defined in \.copydesk/automations/links\.md on the branch main"):
        service.change(files.bench.project, automation.id, {"enabled": False}, actor="Ada")
    with pytest.raises(AutomationInFile):
        service.delete(files.bench.project.id, automation.id, actor="Ada")
    assert files.only() == automation
    assert files.bench.run(automation).automation_id == automation.id
    project = files.bench.desk.projects.get(files.bench.project.id)
    fired = service.run_now(project, automation.id, actor="Ada", require_enabled=True)
    assert fired.is_new


def test_switching_the_setting_off_stops_the_automations_at_once(files: FilesBench) -> None:
    files.push_and_look({LINKS: LINKS_TEXT})
    automation = files.only()
    files.bench.make_due(automation, clock.now() - 1)
    files.set(automation_files="false")
    files.bench.scheduler.fire_due_schedules()
    assert files.bench.list_jobs() == []
    project = files.bench.desk.projects.get(files.bench.project.id)
    with pytest.raises(AutomationDisabled):
        files.bench.desk.automations.run_now(project, automation.id, actor="CI", require_enabled=True)
    files.watch.look()
    assert files.only().definition.enabled is False
    assert automation.source is not None
    problem = "The project does not read automation files (setting automation_files)."
    assert files.only().source == replace(automation.source, problem=problem)
    assert files.state.files == ()
    files.set(automation_files="true")
    files.watch.look()
    assert files.only().definition == automation.definition
    files.set(automation_files="false")
    files.bench.desk.automations.delete(files.bench.project.id, automation.id, actor="Ada")
    assert files.list_all() == []


def test_unreadable_repository_keeps_the_automations_and_says_so(files: FilesBench) -> None:
    files.push_and_look({LINKS: LINKS_TEXT})
    before = files.only()
    moved = files.bench.repository.rename(files.bench.repository.with_suffix(".away"))
    files.watch.look()
    assert files.only() == before
    assert files.state.problem
    moved.rename(files.bench.repository)
    files.watch.look()
    assert files.state.problem is None


def test_missing_branch_keeps_the_automations_and_says_so(files: FilesBench) -> None:
    files.push_and_look({LINKS: LINKS_TEXT})
    files.set(ref="gone")
    files.watch.look()
    assert files.state.problem == "The repository has no branch gone."
    assert files.only().definition.enabled


@pytest.mark.deep
def test_audit_log_names_the_commit_and_the_file(files: FilesBench) -> None:
    commits = [files.push_and_look({LINKS: text}) for text in (LINKS_TEXT, BROKEN, LINKS_TEXT, None)]
    entries = audit_log.list_entries(files.bench.desk.database, files.bench.project.id)
    found = [(each["action"], each["actor"]) for each in entries if each["action"].startswith("automation.")]
    actions = ["automation.created", "automation.changed", "automation.changed", "automation.deleted"]
    assert found[::-1] == [(action, f"commit {c[:12]}") for action, c in zip(actions, commits, strict=True)]
    assert entries[0]["details"] == {"file": LINKS, "name": "Broken links"}


def test_schedule_in_a_file_fires_once_for_each_slot(files: FilesBench) -> None:
    files.push_and_look({LINKS: LINKS_TEXT})
    automation = files.only()
    files.bench.make_due(automation, clock.now() - 1)
    for _ in range(3):
        files.bench.scheduler.fire_due_schedules()
    [job] = files.bench.list_jobs()
    assert (job.automation_id, job.prompt) == (automation.id, "Fix the broken links.\nOnly in docs/.")


@pytest.mark.deep
def test_content_update_in_a_file_fires_once_and_not_for_its_own_commits(files: FilesBench) -> None:
    files.push_and_look({LINKS: ON_UPDATE})
    files.settle()
    assert files.bench.list_jobs() == []  # not for the commit that brought the file
    files.push({"docs/index.md": b"# The colour\n"})
    files.settle()
    files.settle()
    [job] = files.bench.list_jobs()
    files.bench.finish(job.id, "merged")
    files.push({"docs/index.md": b"# The color\n"}, f"Say color\n\nCopydesk-Job: {job.id}\n")
    files.settle()
    assert len(files.bench.list_jobs()) == 1
    files.push({LINKS: None, "docs/index.md": b"# Colour\n"})
    files.settle()
    assert len(files.bench.list_jobs()) == 1


def test_change_of_automation_files_alone_starts_no_model(files: FilesBench) -> None:
    files.push_and_look({LINKS: ON_UPDATE})
    files.push({LINKS: ON_UPDATE.replace(b"Spelling", b"Words"), ".copydesk/automations/b.md": LINKS_TEXT})
    files.settle()
    automation = next(each for each in files.list_all() if each.definition.name == "Words")
    runs, _ = files.bench.desk.automations.list_runs(files.bench.project.id, automation.id)
    assert [run.outcome for run in runs] == [Outcome.NOTHING_TO_DO]


def test_repository_is_asked_once_for_files_and_triggers(files: FilesBench) -> None:
    files.push_and_look({LINKS: ON_UPDATE, OTHER: ON_UPDATE})
    asked = []

    def list_repositories(project: Project) -> list[WatchedRepository]:
        [own] = files.bench.desk.list_watched_repositories(project)

        def open_git() -> Git:
            asked.append(own.address)
            return own.open_git()

        return [replace(own, open_git=open_git)]

    files.watch.list_repositories = list_repositories
    files.push_and_look({"docs/index.md": b"# Hi\n"})
    assert len(asked) == 1


def test_older_commit_of_a_slow_server_does_not_win(files: FilesBench) -> None:
    """One server asks for the newest commit and stalls; meanwhile another one applies a newer commit."""
    project = files.bench.desk.projects.get(files.bench.project.id)
    [own] = files.bench.desk.list_watched_repositories(project)
    files.watch.look()

    def find_head_and_stall(_: str) -> OwnHead:
        old_head = OwnHead(own, files.push({LINKS: LINKS_TEXT}))
        files.push_and_look({LINKS: None, OTHER: CUSTOM})
        return old_head

    files.bench.desk.automation_files.sync(project, find_head_and_stall)
    assert files.only().definition.name == "Spelling"


def test_reading_is_applied_whole_or_not_at_all_when_the_server_is_killed(
    files: FilesBench, migrated_url: str, tmp_path: Path
) -> None:
    files.push_and_look({LINKS: LINKS_TEXT, OTHER: CUSTOM, "docs/index.md": b"# A\n"})
    before = files.list_all(), files.state
    head = files.push({LINKS: None, OTHER: BROKEN, ".copydesk/automations/new.md": CUSTOM})
    killed = 0
    for moment in range(1, 100, 2):
        orders = TriggerOrders(migrated_url, tmp_path, files.bench.project.id, "files", kill_at=moment)
        process = forkserver.Process(target=run_trigger_process, args=(orders,))
        process.start()
        process.join(120)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        if files.state.commit == head:
            assert len(files.list_all()) == len(files.state.files) == 2
        else:
            assert (files.list_all(), files.state) == before
        killed += 1
    assert killed >= 3
    files.watch.look()
    by_path = {each.source.file: each for each in files.list_all() if each.source}
    assert sorted(by_path) == [".copydesk/automations/new.md", OTHER]
    assert [each.definition.enabled for _, each in sorted(by_path.items())] == [True, False]
    assert list(files.problems()) == ["other.md"]
    entries = audit_log.list_entries(files.bench.desk.database, files.bench.project.id)
    assert sum(each["action"] == "automation.deleted" for each in entries) == 1


@pytest.mark.deep
def test_servers_that_read_at_the_same_time_create_each_automation_once(files: FilesBench) -> None:
    files.push({f".copydesk/automations/{number}.md": LINKS_TEXT for number in range(5)})
    barrier = threading.Barrier(3)
    failures = []

    def look() -> None:
        barrier.wait()
        try:
            files.watch.look()
        except BaseException as failure:  # shown by the assertion
            failures.append(failure)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(files.list_all()) == 5
    entries = audit_log.list_entries(files.bench.desk.database, files.bench.project.id)
    assert sum(each["action"] == "automation.created" for each in entries) == 5
    with files.bench.desk.database.read() as tx:
        assert len(tx.execute(select(automation_files)).all()) == 1
