"""Findings of the checks: the model receives them, and the report about them is correct."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from copydesk.core.projects.policy import Policy
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.agent.conversation import Conversation, Reply, ToolResults
from copydesk.jobs.job import Job, Status
from copydesk.jobs.sandbox.sandbox import SandboxUnavailable
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.records import job_topic
from copydesk.jobs.workflow.executor import RunExecutor
from copydesk.jobs.workspace.workspace import Workspace, short_hash
from tests.support import migrated_databases
from tests.support.repositories import make_repository
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish

PAGE = b"# A\n\nHello one\n"
UNCLOSED = edit("a.md", "Hello", "Hello\n\n```\n")
GOOD, BAD = edit("a.md", "one", "two"), edit("a.md", "Hello", "Hello [x](gone.md)")
MENDED = edit("a.md", "[x](gone.md)", "there")


class ReviewStage:
    def __init__(self, desk: Desk, repository: Path, policy: Policy, script: list[Turn]) -> None:
        self.desk, self.model = desk, ScriptedModel(script)
        self.project = desk.projects.create(
            "P", repository=str(repository), ref="main", model="openai:scripted", policy=policy, actor="test"
        )
        self.worker = desk.create_worker(lambda _name: self.model)

    def wait_for_end(self, job_id: str) -> Job:
        signals, topic = self.desk.database.notifications, job_topic(job_id)
        while True:
            mark = signals.mark(topic)
            job = self.desk.jobs.get(self.project.id, job_id)
            if job.status is not Status.ACTIVE:
                return job
            signals.wait(topic, mark, 10)

    def job(self) -> Job:
        return self.wait_for_end(self.desk.jobs.create(self.project, NewJob("Do it.")).job.id)

    @property
    def pull_text(self) -> str:
        return self.desk.pulls.list_for_project(self.project.id)[0].body


@contextmanager
def open_stage(
    folder: Path,
    *script: Turn,
    policy: Policy | None = None,
    page: bytes = PAGE,
    files: dict[str, bytes] | None = None,
    without_sandbox: bool = False,
) -> Iterator[ReviewStage]:
    desk = open_desk(Settings(data=folder / "data", database_url=migrated_databases.new_sqlite(folder / "data")))
    stage = ReviewStage(
        desk, make_repository(folder / "docs.git", files or {"a.md": page}), policy or Policy(), list(script)
    )
    if without_sandbox:
        assert isinstance(stage.worker.executor, RunExecutor)
        stage.worker.executor.get_sandbox()  # it was started with the worker
        stage.worker.executor._sandbox = SandboxUnavailable("This machine has none.")
    thread = threading.Thread(target=stage.worker.run)
    thread.start()
    try:
        yield stage
    finally:
        stage.worker.stop()
        thread.join()
        desk.close()


def test_finding_fixed_by_the_model_is_not_in_the_pull_request(tmp_path: Path) -> None:
    with open_stage(tmp_path, BAD, finish(), MENDED, finish()) as stage:
        job = stage.job()
        assert (job.message, job.checks) == (None, []), "the change has nothing left to judge"
        assert "nothing in this change to judge" in stage.pull_text
        assert "gone.md" not in stage.pull_text


def test_unfixed_finding_makes_the_pull_request_a_draft_that_names_it(tmp_path: Path) -> None:
    with open_stage(tmp_path, BAD, *[finish()] * 4) as stage:
        job = stage.job()
        assert job.message == "Review first: failed check. The pull request is a draft."
        assert stage.desk.pulls.list_for_project(stage.project.id)[0].draft
        assert stage.pull_text.startswith("**Review first**\n\n- **failed check:** a.md:3 The link to `gone.md`")
        [risk] = job.risk
        assert risk.kind == "failed_check"
        assert len(stage.model.requests) == 5, "three times back, then it stands"


def test_what_was_not_judged_is_in_the_job_the_events_and_the_pull_request(tmp_path: Path) -> None:
    doubtful = edit("a.md", "Hello", "Hello [x](/app/login)")
    with open_stage(tmp_path, doubtful, finish()) as stage:
        stage.project = stage.desk.projects.create(
            "Q",
            repository=str(make_repository(tmp_path / "site.git", {"a.md": PAGE, "package.json": b"{}"})),
            ref="main",
            model="openai:scripted",
            policy=Policy(),
            actor="test",
        )
        job = stage.job()
        reason = "no known generator builds this page, so its addresses are unknown"
        check = next(check for check in job.checks if check["name"] == "link")
        assert (job.message, check["status"], check["reason"]) == (None, "not_judged", reason)
        assert check["notJudged"][0]["path"] == "a.md"
        assert f"not judged: links ({reason})" in stage.pull_text
        assert "passed:" not in stage.pull_text
        _, events = stage.desk.jobs.list_events(stage.project.id, job.id)
        assert next(event.data for event in events if event.kind == "checked")["notJudged"] == ["link"]


@pytest.mark.deep
def test_setting_that_exists_nowhere_is_named_for_the_reviewer_of_a_ready_pull_request(tmp_path: Path) -> None:
    block = edit("a.md", "Hello one", "Hello\n\n```yaml\nretry_backoff: 2\n```")
    with open_stage(tmp_path, block, finish()) as stage:
        job = stage.job()
        message = "a.md:6 The setting `retry_backoff` occurs nowhere in the repository or the request."
        assert [(risk.kind, risk.text) for risk in job.risk] == [("please_check", message)]
        assert not stage.desk.pulls.list_for_project(stage.project.id)[0].draft
        assert f"- **please check:** {message}" in stage.pull_text
        assert "passed: 1 page with code fences" in stage.pull_text
        assert "names" not in stage.pull_text.partition("passed: ")[2].partition("\n")[0]


@pytest.mark.deep
def test_open_component_beside_an_object_makes_a_draft(tmp_path: Path) -> None:
    page = b'# A\n\n<div style={{color: "red"}}>x</div>\n\nHello one\n'
    files = {"docs.json": b'{"navigation": {"pages": ["a"]}}', "a.mdx": page}
    with open_stage(tmp_path, edit("a.mdx", "Hello one", "<Note>\nHello"), *[finish()] * 4, files=files) as stage:
        assert [risk.kind for risk in stage.job().risk] == ["failed_check"]
        assert stage.desk.pulls.list_for_project(stage.project.id)[0].draft


@pytest.mark.deep
def test_redirect_within_the_site_makes_no_draft(tmp_path: Path) -> None:
    files = {"docs.json": b'{"navigation": {"pages": ["a"]}}', "a.mdx": PAGE}
    redirects = '"redirects": [{"source": "/old", "destination": "/a"}], "navigation"'
    with open_stage(tmp_path, edit("docs.json", '"navigation"', redirects), finish(), files=files) as stage:
        assert stage.job().risk == []
        assert not stage.desk.pulls.list_for_project(stage.project.id)[0].draft


def test_unfixed_finding_fails_the_job_if_the_project_says_so(tmp_path: Path) -> None:
    with open_stage(tmp_path, BAD, *[finish()] * 4, policy=Policy(on_check_failure="fail")) as stage:
        job = stage.job()
        assert (job.status, job.reason, job.pr_link) == (Status.FAILED, "checks_failed", None)
        assert "gone.md" in (job.message or "")


def test_model_that_ends_with_text_is_reviewed_too(tmp_path: Path) -> None:
    words = [Reply(text="All done."), Reply(text="I changed a.md as asked.")]
    with open_stage(tmp_path, BAD, *words, MENDED, finish()) as stage:
        assert stage.job().message is None
        assert "gone.md" in str(stage.model.requests[3][-1])
        assert "gone.md" not in stage.pull_text


@pytest.mark.deep
def test_follow_up_with_findings_does_not_call_a_ready_pull_request_a_draft(tmp_path: Path) -> None:
    with open_stage(tmp_path, GOOD, finish(), BAD, *[finish()] * 4) as stage:
        first = stage.job()
        stage.desk.jobs.add_message(stage.project, first.id, "More.")
        job = stage.wait_for_end(first.id)
        assert job.message == "Review first: failed check."
        assert [risk.kind for risk in job.risk] == ["failed_check"]
        assert stage.pull_text.startswith("**Review first**")
        assert not stage.desk.pulls.list_for_project(stage.project.id)[0].draft


def test_model_is_told_why_its_change_cannot_be_published(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    leak = edit("a.md", "one", f"one {secret}")
    with open_stage(tmp_path, leak, finish(), edit("a.md", secret, "<your token>"), finish()) as stage:
        assert stage.job().status is Status.COMPLETED
        assert "looks like a secret" in str(stage.model.requests[2][-1])
        assert secret not in str(stage.model.requests[2][-1])


@pytest.mark.deep
def test_check_command_that_failed_before_the_change_is_not_a_finding(tmp_path: Path) -> None:
    with open_stage(tmp_path, GOOD, finish(), policy=Policy(check_command="false")) as stage:
        stage.job()
        assert "- not judged: check command (it fails without the change, too)" in stage.pull_text
        assert "passed: " not in stage.pull_text
        assert "- **not judged:** check command: it fails without the change, too" in stage.pull_text


@pytest.mark.deep
def test_without_a_sandbox_the_command_is_refused_and_not_blamed_on_the_model(tmp_path: Path) -> None:
    policy = Policy(check_command="true")
    with open_stage(tmp_path, GOOD, *[finish()] * 4, policy=policy, without_sandbox=True) as stage:
        job = stage.job()
        assert job.checks[-1]["status"] == "failed"
        assert "- **failed check:** The check command was not run. This machine has none." in stage.pull_text
        assert len(stage.model.requests) == 2


REFORMATTED_LINES = [f"* point number {n} of this page" for n in range(60)]
LONG_PAGE = "\n".join(["# A", "", *REFORMATTED_LINES, ""]).encode()
PIECES = [{"old": line, "new": f"- {line[2:]}"} for line in REFORMATTED_LINES]


@pytest.mark.deep
def test_pull_request_shows_why_a_page_was_reformatted(tmp_path: Path) -> None:
    arguments = {"path": "a.md", "hash": short_hash(LONG_PAGE), "replacements": PIECES, "reformat": "It says: dashes."}
    with open_stage(tmp_path, calls(("edit", arguments)), finish(), page=LONG_PAGE) as stage:
        assert stage.job().status is Status.COMPLETED
        assert len(stage.model.requests) == 2
        assert (
            "**Reformatted** (lines that change only in form):\n\n- a.md, 60 lines: It says: dashes." in stage.pull_text
        )


@pytest.mark.deep
def test_page_that_was_moved_and_reformatted_is_pointed_out_once(tmp_path: Path) -> None:
    def reformat(_conversation: Conversation, workspace: Workspace) -> Reply:
        content = workspace.read("b.md").replace(b"* ", b"- ").decode()
        return calls(("delete", {"path": "b.md"}), ("write", {"path": "b.md", "content": content}))

    move = calls(("move", {"path": "a.md", "to": "b.md"}))
    with open_stage(tmp_path, move, reformat, finish(), finish(), page=LONG_PAGE) as stage:
        assert stage.job().status is Status.COMPLETED
        assert "b.md: The change only reformats 60 lines" in str(stage.model.requests[3][-1])
        assert "If this is what was asked for, call finish again." in str(stage.model.requests[3][-1])
        assert len(stage.model.requests) == 4
        assert "b.md, 60 lines: the model gave no reason" in stage.pull_text


def finish_as_intended(reason: str) -> Turn:
    """Returns a turn that declares the first finding of the latest review intended."""

    def turn(conversation: Conversation, _workspace: Workspace) -> Reply:
        identifier = str(conversation[-1]).partition("(id ")[2].partition(")")[0]
        intended = [{"id": identifier, "reason": reason}]
        return calls(("finish", {"title": "T", "summary": "S", "intended": intended}))

    return turn


def last_results(stage: ReviewStage, request: int) -> str:
    entry = stage.model.requests[request][-1]
    assert isinstance(entry, ToolResults)
    return "\n".join(result.text for result in entry.results)


@pytest.mark.deep
def test_intended_finding_is_never_passed_and_makes_a_draft_that_shows_its_reason(tmp_path: Path) -> None:
    with open_stage(tmp_path, UNCLOSED, finish(), finish_as_intended("Shown as it is typed.")) as stage:
        job = stage.job()
        assert job.message == "Review first: intended. The pull request is a draft."
        assert stage.desk.pulls.list_for_project(stage.project.id)[0].draft
        assert stage.pull_text.startswith("**Review first**\n\n- **intended:** a.md:")
        assert "Intended: Shown as it is typed." in stage.pull_text.partition("\n\nS")[0]
        entry = next(check for check in job.checks if check["name"] == "fence")
        assert (entry["status"], entry["introduced"]) == ("failed", 1)
        assert entry["findings"][0]["intended"] == "Shown as it is typed."
        assert len(stage.model.requests) == 3
        _, events = stage.desk.jobs.list_events(stage.project.id, job.id)
        [checked] = [event.data for event in events if event.kind == "checked"]
        assert (checked["passed"], len(checked["findings"])) == (False, 1)


@pytest.mark.deep
def test_intended_broken_link_goes_back_and_stays_a_failed_finding(tmp_path: Path) -> None:
    excuse = finish_as_intended("The next release adds gone.md.")
    with open_stage(tmp_path, BAD, finish(), excuse, excuse, excuse) as stage:
        job = stage.job()
        assert "no other open pull request of this project adds the missing file" in last_results(stage, 3)
        assert [risk.kind for risk in job.risk] == ["failed_check"]
        link = next(check for check in job.checks if check["name"] == "link")
        assert (link["status"], link["findings"][0]["intended"]) == ("failed", None)
        assert stage.desk.pulls.list_for_project(stage.project.id)[0].draft


@pytest.mark.deep
@pytest.mark.parametrize("way", ["added", "renamed"])
def test_intended_broken_link_is_accepted_if_another_open_pull_request_adds_the_target(
    tmp_path: Path, way: str
) -> None:
    files = {"a.md": PAGE, "b.md": b"# B\n\nA page that another job moves.\n"}
    add = {
        "added": calls(("write", {"path": "gone.md", "content": "# Gone\n"})),
        "renamed": calls(("move", {"path": "b.md", "to": "gone.md"})),
    }[way]
    with open_stage(tmp_path, add, finish(), files=files) as stage:
        other = stage.job()
        stage.model.script = [BAD, finish(), finish_as_intended("Another pull request adds it.")]
        job = stage.job()
        assert [risk.kind for risk in job.risk] == ["intended"]
        stage.desk.pulls.close(stage.desk.pulls.list_for_project(stage.project.id)[-1], "ada")
        assert stage.desk.jobs.get(stage.project.id, other.id).pull_state == "closed"
        closed = stage.job()
        assert [risk.kind for risk in closed.risk] == ["failed_check"], "a closed pull request adds nothing"


def test_secret_in_a_reason_is_not_published(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    leak = {"title": "T", "summary": "S", "intended": [{"id": "00000000", "reason": f"Because {secret}."}]}
    with open_stage(tmp_path, GOOD, calls(("finish", leak))) as stage:
        job = stage.job()
        assert (job.status, job.reason) == (Status.FAILED, "publish_refused")


@pytest.mark.deep
def test_other_findings_still_make_a_draft(tmp_path: Path) -> None:
    unknown = {"title": "T", "summary": "S", "intended": [{"id": "00000000", "reason": "Why not."}]}
    with open_stage(tmp_path, BAD, *[calls(("finish", unknown))] * 4) as stage:
        job = stage.job()
        assert job.message == "Review first: failed check. The pull request is a draft."
        link = next(check for check in job.checks if check["name"] == "link")
        assert all(finding["intended"] is None for finding in link["findings"])


def test_page_outside_the_navigation_is_a_note_where_the_generator_allows_it(tmp_path: Path) -> None:
    files = {"docs.json": b'{"navigation": {"pages": ["index", "one"]}}', "index.mdx": b"# I\n", "one.mdx": b"# 1\n"}
    write = calls(("write", {"path": "two.mdx", "content": "# 2\n"}), ("check", {}))
    with open_stage(tmp_path, write, finish(), files=files) as stage:
        job = stage.job()
        assert job.message is None
        assert len(stage.model.requests) == 2
        assert "Notes, which you may leave" in last_results(stage, 1)
        orphan = next(check for check in job.checks if check["name"] == "orphan")
        assert orphan["status"] == "passed"
        assert orphan["notes"][0]["path"] == "two.mdx"
        assert "1 note, which needs no change" in stage.pull_text


@pytest.mark.deep
def test_page_outside_the_navigation_is_a_finding_where_it_is_not_built(tmp_path: Path) -> None:
    files = {"book.toml": b"[book]\n", "src/SUMMARY.md": b"# Summary\n\n- [A](a.md)\n- [B](b.md)\n"}
    files |= {"src/a.md": b"# A\n", "src/b.md": b"# B\n"}
    write = calls(("write", {"path": "src/c.md", "content": "# C\n"}))
    with open_stage(tmp_path, write, *[finish()] * 4, files=files) as stage:
        assert "The pull request is a draft." in (stage.job().message or "")


@pytest.mark.deep
def test_check_lists_existing_findings_and_those_that_were_fixed(tmp_path: Path) -> None:
    page = b"# A\n\n[x](gone.md) [y](lost.md)\n"
    script = [
        calls(("check", {"existing": True})),
        edit("a.md", "[x](gone.md)", "x"),
        calls(("check", {"existing": True, "rule": "link", "files": ["a.*"]})),
        calls(("check", {"existing": True, "rule": "image"})),
        finish(),
    ]
    with open_stage(tmp_path, *script, page=page) as stage:
        stage.job()
        before, after = last_results(stage, 1), last_results(stage, 3)
        assert before.count("a.md:3 [link]") == 2
        assert "lost.md" in after.partition("Existed before:")[2].partition("Fixed")[0]
        assert "gone.md" in after.partition("Fixed by your changes:")[2]
        assert "Existed before:\nnone\nFixed by your changes:\nnone" in last_results(stage, 4)


@pytest.mark.deep
def test_check_command_is_a_tool_only_if_the_project_has_one(tmp_path: Path) -> None:
    use = calls(("run_checks", {}))
    with open_stage(tmp_path, GOOD, use, finish()) as stage:
        stage.job()
        assert "There is no tool run_checks" in last_results(stage, 2)


@pytest.mark.deep
def test_run_checks_runs_the_project_command(tmp_path: Path) -> None:
    policy = Policy(check_command="grep -q one a.md")
    use = calls(("run_checks", {}))
    with open_stage(tmp_path, GOOD, use, calls(("check", {})), *[finish()] * 4, policy=policy) as stage:
        assert stage.job().checks[-1]["status"] == "failed"
        assert "The check command" in last_results(stage, 2)
        assert "The check command" not in last_results(stage, 3), "check runs the rules alone"
        assert "The check command" in last_results(stage, 4), "finish runs both"


def test_pull_request_says_which_instructions_were_read(tmp_path: Path) -> None:
    files = {"a.md": PAGE, "CLAUDE.md": b"Be brief.\n", ".cursor/rules/x.mdc": b"Be kind.\n"}
    with open_stage(tmp_path, GOOD, finish(), files=files) as stage:
        stage.job()
        assert "**Instructions read:** `CLAUDE.md`, `.cursor/rules/x.mdc`" in stage.pull_text


def test_removed_address_without_a_redirect_is_noted_in_the_pull_request(tmp_path: Path) -> None:
    files = {"docs.json": b'{"navigation": {"pages": ["index", "one"]}}', "index.mdx": b"# I\n", "one.mdx": b"# 1\n"}
    move = calls(("move", {"path": "one.mdx", "to": "two.mdx"}))
    with open_stage(tmp_path, move, finish(), files=files) as stage:
        stage.job()
        assert "- **vanished address:** `/one` no longer exists, and nothing redirects from it." in stage.pull_text
        assert stage.desk.pulls.list_for_project(stage.project.id)[0].draft
