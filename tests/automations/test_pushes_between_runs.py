"""What is pushed to main before, during and after a run of a job: every run sees the newest pages, and loses none."""

import shutil
from collections.abc import Iterator

import pygit2
import pytest

from copydesk.automations.automation import Outcome
from copydesk.jobs.agent.conversation import Conversation, ModelFailed, Prompt, Reply
from copydesk.jobs.execution.attempt import Attempt, AttemptStopped
from copydesk.jobs.job import COMPLETED, Reason, Usage
from copydesk.jobs.workspace.workspace import Workspace, short_hash
from tests.automations.conftest import Bench
from tests.automations.pushes import NEW, OLD, Pushes, open_pushes
from tests.support.repositories import list_branches, read_file
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish

pytestmark = pytest.mark.deep


@pytest.fixture(params=["automation", "person"])
def pushes(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Pushes]:
    with open_pushes(bench, request.param) as pushes:
        yield pushes


@pytest.fixture
def automated(bench: Bench) -> Iterator[Pushes]:
    with open_pushes(bench, "automation") as pushes:
        yield pushes


@pytest.fixture
def asked(bench: Bench) -> Iterator[Pushes]:
    with open_pushes(bench, "person") as pushes:
        yield pushes


def test_page_pushed_before_a_run_is_part_of_it(pushes: Pushes) -> None:
    first = pushes.run()
    pushed = pushes.push()
    job = pushes.run()
    assert (job.id, job.status, job.reason, job.base) == (first.id, COMPLETED, None, pushed), job.message
    assert pushes.read("docs/two.md") == NEW
    assert pushes.list_changed() == ["docs/index.md", "docs/two.md"]
    [merge] = pushes.head.parents
    assert [str(parent.id) for parent in merge.parents] == [first.head, pushed]
    assert merge.message.splitlines()[0] == f"Merge main into {job.branch}"
    assert len(pushes.list_pulls()) == 1


def test_page_of_other_people_is_not_in_the_diff_of_the_job(pushes: Pushes) -> None:
    pushes.run()
    pushes.push("docs/three.md", b"# Three\n")
    pushes.push()
    job = pushes.run()
    assert pushes.read("docs/three.md") == b"# Three\n"
    assert b"three.md" not in pushes.bench.desk.jobs.diff(pushes.bench.project.id, job.id)
    assert pushes.list_changed() == ["docs/index.md", "docs/two.md"]


def test_page_pushed_during_a_run_is_part_of_the_next(pushes: Pushes) -> None:
    pushes.run()
    pushes.push()
    pushes.model.during = lambda: pushes.push("docs/three.md")
    pushes.run()
    assert pushes.read("docs/two.md") == NEW
    assert pushes.run().reason is None
    assert pushes.read("docs/three.md") == NEW
    assert pushes.list_changed() == ["docs/index.md", "docs/three.md", "docs/two.md"]


def test_page_pushed_after_a_run_that_changed_nothing_is_part_of_the_next(pushes: Pushes) -> None:
    first = pushes.run()
    pushes.push("docs/three.md", b"# Three\n")
    pushes.run()
    assert str(pushes.head.id) == first.head, "a merge alone is not pushed"
    pushes.push()
    pushes.run()
    assert pushes.read("docs/two.md") == NEW


def test_commits_of_other_people_on_the_branch_are_kept(pushes: Pushes) -> None:
    job = pushes.run()
    by_hand = pushes.push("docs/by-hand.md", b"# By hand\n", branch=job.branch)
    pushes.push()
    pushes.run()
    assert pushes.read("docs/by-hand.md") == b"# By hand\n"
    assert pushes.repository.descendant_of(pushes.head.id, by_hand)
    assert pushes.list_changed() == ["docs/by-hand.md", "docs/index.md", "docs/two.md"]


def test_deleted_branch_is_created_again_from_the_newest_base_with_the_work(pushes: Pushes) -> None:
    job = pushes.run()
    pushes.push()
    pushes.run()
    pushes.repository.references.delete(f"refs/heads/{job.branch}")
    newest = pushes.push("docs/three.md")
    again = pushes.run()
    assert (again.id, again.status, again.reason) == (job.id, COMPLETED, None), again.message
    assert [pushes.read(f"docs/{name}.md") for name in ("two", "three")] == [NEW, NEW]
    assert b"color" in (pushes.read("docs/index.md") or b"")
    assert [str(parent.id) for parent in pushes.head.parents] == [newest]


def test_reset_of_main_is_told_where_the_branch_would_undo_it(pushes: Pushes) -> None:
    before = pushes.main
    withdrawn = pushes.push("docs/secret.md", b"# Secret\n")
    job = pushes.run()
    pushes.reset_main(before)
    newest = pushes.push()
    again = pushes.run()
    assert (again.id, again.status, again.reason) == (job.id, COMPLETED, None)
    assert pushes.read("docs/two.md") == NEW
    told = f"main was reset and no longer contains commit {withdrawn[:12]}, but this branch still does."
    assert told in (again.message or "")
    assert told in pushes.read_pull()
    assert again.base == newest
    assert "docs/secret.md" in pushes.list_changed(), "the pull request would bring it back"


def test_reset_of_main_alone_is_told(pushes: Pushes) -> None:
    before = pushes.main
    pushes.push("docs/secret.md", b"# Secret\n")
    pushes.run()
    pushes.reset_main(before)
    assert "main was reset" in (pushes.run().message or "")


def test_follow_up_of_a_person_goes_on_where_main_conflicts_and_says_so(asked: Pushes) -> None:
    first = asked.run()
    asked.push("docs/index.md", b"# Hello\n\nAll colours.\n")
    job = asked.run("Replace things with matters.")
    assert (job.id, job.status, job.reason, job.base) == (first.id, COMPLETED, None, first.base)
    assert asked.read("docs/index.md") == b"# Hello\n\nThe color of matters.\n"
    assert "The change conflicts with main." in (job.message or "")
    assert "The change conflicts with main." in asked.read_pull()
    assert asked.list_changed() == ["docs/index.md"]


def test_follow_up_that_changes_nothing_says_that_main_conflicts(asked: Pushes) -> None:
    first = asked.run()
    asked.push("docs/index.md", b"# Hello\n\nAll colours.\n")
    job = asked.run("Replace zebra with horse.")
    assert (job.reason, job.head) == (None, first.head)
    assert "The change conflicts with main." in (job.message or "")


def test_run_of_an_automation_goes_on_in_a_new_job_where_main_conflicts(automated: Pushes) -> None:
    old = automated.run()
    newest = automated.push("docs/index.md", b"# Hello\n\nAll colours, one colour.\n")
    automated.send()
    assert automated.job_id == old.id
    automated.work()
    [new] = [job for job in automated.bench.list_jobs() if job.id != old.id]
    assert (new.status, new.reason, new.base, new.automation_id) == (COMPLETED, None, newest, automated.automation.id)
    assert automated.read("docs/index.md", new) == b"# Hello\n\nAll colours, one color.\n"
    kept = automated.job
    assert (kept.status, kept.reason, kept.summary, kept.title) == (COMPLETED, None, old.summary, old.title)
    assert f"conflicts with main, so the automation's run went on in a new job: http://127.0.0.1:8080/projects/{new.project_id}/jobs/{new.id}." in (kept.message or "")  # fmt: skip  # noqa: E501
    assert "This pull request conflicts with main" in automated.read_pull()
    latest, first = automated.list_runs()
    assert (latest.job_id, latest.outcome, latest.is_appended) == (new.id, Outcome.REVIEW_NEEDED, False)
    assert (first.job_id, first.outcome) == (old.id, Outcome.REVIEW_NEEDED)
    assert list_branches(automated.bench.repository).keys() == {"main", old.branch, new.branch}
    automated.send()
    assert automated.job_id == new.id, "later runs continue the new pull request"


def test_request_while_a_run_is_active_is_a_run_of_its_own(automated: Pushes) -> None:
    """The active run has begun, so it does not see what was pushed since."""

    def request() -> None:
        automated.push()
        automated.bench.run(automated.automation)

    automated.model.during = request
    automated.run()
    assert automated.read("docs/two.md") == NEW
    assert [run.outcome for run in automated.list_runs()] == [Outcome.REVIEW_NEEDED] * 2


def test_edits_of_a_run_that_published_nothing_are_merged_onto_the_newest_base(asked: Pushes) -> None:
    asked.send("Replace colour with color. Replace Hello with Welcome.")
    asked.model.later = lambda: asked.bench.desk.jobs.cancel(asked.bench.project.id, asked.job_id)
    asked.work()
    assert asked.job.reason is Reason.CANCELLED
    newest = asked.push()
    job = asked.run("Replace zebra with horse.")
    assert (job.status, job.reason, job.base) == (COMPLETED, None, newest), job.message
    assert asked.read("docs/index.md") == b"# Hello\n\nThe color of things.\n"
    assert asked.read("docs/two.md") == OLD
    assert asked.list_changed() == ["docs/index.md"]


def test_edits_that_conflict_with_the_newest_base_stay_on_the_old_one(asked: Pushes) -> None:
    asked.send("Replace colour with color. Replace Hello with Welcome.")
    asked.model.later = lambda: asked.bench.desk.jobs.cancel(asked.bench.project.id, asked.job_id)
    asked.work()
    before = asked.job.base
    asked.push("docs/index.md", b"# Hello\n\nAll colours.\n")
    job = asked.run("Replace zebra with horse.")
    assert (job.status, job.reason, job.base) == (COMPLETED, None, before), job.message
    assert asked.read("docs/index.md") == b"# Hello\n\nThe color of things.\n"
    assert "The change conflicts with main." in (job.message or "")


def test_follow_up_that_changes_nothing_leaves_the_job_as_it_was(pushes: Pushes) -> None:
    first = pushes.run()
    job = pushes.run("Replace zebra with horse.")
    assert (job.status, job.reason, job.summary, job.title) == (COMPLETED, None, first.summary, first.title)
    assert (job.pr_link, job.head) == (first.pr_link, first.head)
    assert job.message
    _, events = pushes.bench.desk.jobs.list_events(pushes.bench.project.id, job.id)
    finished = [event.data for event in events if event.kind == "finished"][-1]
    assert (finished["status"], finished["reason"], finished["run"]["reason"]) == ("completed", None, "no_changes")
    assert finished["run"]["message"] in job.message
    third = pushes.push() and pushes.run()
    assert third.title == first.title


def test_follow_up_that_is_not_understood_leaves_the_job_as_it_was(asked: Pushes) -> None:
    first = asked.run()
    job = asked.run("Write a poem about the sea.")
    assert (job.status, job.reason, job.summary, job.title) == (COMPLETED, None, first.summary, first.title)
    assert "needs a language model" in (job.message or "")
    _, events = asked.bench.desk.jobs.list_events(asked.bench.project.id, job.id)
    assert events[-1].data["run"]["reason"] == "not_understood"


def test_run_that_found_nothing_is_told_in_the_list_of_runs(automated: Pushes) -> None:
    automated.run()
    automated.run()
    latest, _ = automated.list_runs()
    assert latest.outcome is Outcome.NOTHING_TO_DO
    assert latest.message


def test_broken_link_of_a_page_pushed_after_the_pull_request_was_opened_is_fixed(bench: Bench) -> None:
    with open_pushes(bench, "automation") as pushes:
        pushes.push("docs/installation.md", b"# Setup\n\nSee [this](instalation.md).\n")
        vars(pushes)["automation"] = bench.create(kind="broken_links", prompt="")
        pushes.run()
        assert pushes.read("docs/installation.md") == b"# Setup\n\nSee [this](installation.md).\n"
        pushes.push("docs/two.md", b"# Two\n\nSee [setup](instalation.md).\n")
        job = pushes.run()
        assert (job.status, job.reason) == (COMPLETED, None), job.message
        assert pushes.read("docs/two.md") == b"# Two\n\nSee [setup](installation.md).\n"
        assert [run.outcome for run in pushes.list_runs()] == [Outcome.REVIEW_NEEDED] * 2


def test_each_run_has_a_budget_and_those_of_an_automation_a_conversation_of_its_own(bench: Bench) -> None:
    pages = ["index", "two", "three", "four"]
    script = [turn for page in pages for turn in (edit(f"docs/{page}.md", "colour", "color"), finish(f"Spell {page}"))]
    model = ScriptedModel(script)
    with open_pushes(bench, "automation", model) as pushes:
        executor = pushes.worker.executor
        executor.settings = executor.settings.model_copy(update={"job_requests": 3})  # type: ignore[attr-defined]
        for page in pages[1:]:
            pushes.push(f"docs/{page}.md")
        for number in range(1, 4):
            job = pushes.run()
            assert (job.status, job.reason, job.usage.requests) == (COMPLETED, None, 2 * number), job.message
        opening = model.requests[4]
        assert [type(entry) for entry in opening] == [Prompt, Prompt]
        told = str(opening)
        assert "What was done: It was made." in told
        assert told.count("Replace colour with color.") == 2, "the earlier requests, which are the same, and this one"
        assert "Request 2: the same as request 1" in told
        assert "docs/index.md" not in told
        pushes.sender = "person"
        job = pushes.run("And the fourth page.")
        assert (job.reason, job.usage.requests) == (None, 8), job.message
        follow_up = model.requests[6]
        assert follow_up[: len(opening)] == opening, "a person's message goes on with the conversation since then"
        assert isinstance(follow_up[-1], Prompt)
        assert follow_up[-1].text == "And the fourth page."


def test_conversation_of_a_person_says_that_files_have_changed(bench: Bench) -> None:
    script = [edit("docs/index.md", "colour", "color"), finish(), edit("docs/two.md", "colour", "color"), finish()]
    model = ScriptedModel(script)
    with open_pushes(bench, "person", model) as pushes:
        pushes.run()
        pushes.push()
        pushes.run("The second page too.")
        told = [entry.text for entry in model.requests[2] if isinstance(entry, Prompt)]
        assert told[1:] == [
            "The newest commits of main were merged into the branch before this run.\n\n"
            "Read a file again before you edit it.",
            "The second page too.",
        ]
        assert pushes.read("docs/two.md") == NEW


def test_edits_of_several_runs_without_a_pull_request_are_kept_while_main_moves(bench: Bench) -> None:
    ask = calls(("ask", {"question": "Which one?"}))
    script = [edit("docs/index.md", "colour", "color"), ask, edit("docs/two.md", "colour", "color"), ask, finish()]
    with open_pushes(bench, "person", ScriptedModel(script)) as pushes:
        pushes.push()
        pushes.run("Spell.")
        assert pushes.job.reason is Reason.QUESTION
        pushes.push("docs/two.md", OLD + b"\nOne more line, far from the other.\n" * 3)
        pushes.run("The first.")
        newest = pushes.push("docs/three.md", b"# Three\n")
        job = pushes.run("The second.")
        assert (job.reason, job.base) == (None, newest), job.message
        assert pushes.read("docs/two.md") == NEW + b"\nOne more line, far from the other.\n" * 3
        assert pushes.list_changed() == ["docs/index.md", "docs/two.md"]


def test_edits_that_were_asked_about_survive_a_push_of_a_person_to_the_branch(bench: Bench) -> None:
    ask = calls(("ask", {"question": "Which one?"}))
    script = [edit("docs/index.md", "colour", "color"), finish(), edit("docs/two.md", "colour", "color"), ask, finish()]
    with open_pushes(bench, "person", ScriptedModel(script)) as pushes:
        pushes.push()
        job = pushes.run("Spell.")
        pushes.run("The second page too.")
        assert pushes.read("docs/two.md") == OLD
        pushes.push("docs/by-hand.md", b"# By hand\n", branch=job.branch)
        assert pushes.run("Yes.").reason is None
        assert [pushes.read("docs/two.md"), pushes.read("docs/by-hand.md")] == [NEW, b"# By hand\n"]


def test_question_stays_until_it_is_answered_and_the_next_run_of_the_automation_has_a_job_of_its_own(
    bench: Bench,
) -> None:
    ask = calls(("ask", {"question": "Which one?"}))
    model = ScriptedModel([edit("docs/index.md", "colour", "color"), finish(), ask, finish()])
    with open_pushes(bench, "automation", model) as pushes:
        asking = pushes.run()
        assert pushes.run().question is not None
        pushes.run()
        assert pushes.job_id != asking.id
        pushes.sender, pushes.job_id = "person", asking.id
        job = pushes.job
        assert (job.reason, job.question and job.question.text) == (Reason.QUESTION, "Which one?")
        assert pushes.run("The second.").reason is None
        told = [call.name for entry in model.requests[-1] if isinstance(entry, Reply) for call in entry.calls]
        assert told == ["ask"], "the answer goes on with the conversation that asked"


def test_change_merged_without_a_review_is_not_made_again_after_people_took_it_back(automated: Pushes) -> None:
    vars(automated)["automation"] = automated.bench.create(mode="merge")
    before = automated.repository[automated.main].peel(pygit2.Commit).tree["docs/index.md"].id
    assert automated.run().pull_state == "merged"
    automated.push("docs/index.md", automated.repository[before].peel(pygit2.Blob).data)
    automated.bench.desk.jobs.add_message(automated.bench.project, automated.job_id, "Replace Hello with Welcome.")
    automated.work()
    assert read_file(automated.bench.repository, "main", "docs/index.md") == b"# Welcome\n\nThe colour of things.\n"


def test_usage_of_a_model_that_failed_counts_in_later_runs_too(bench: Bench) -> None:
    def fail(_conversation: Conversation, _workspace: Workspace) -> Reply:
        raise ModelFailed("It did not answer.", usage=Usage(requests=3, input_tokens=1000, output_tokens=0, cost_usd=2))

    model = ScriptedModel([fail])
    with open_pushes(bench, "person", model) as pushes:
        assert pushes.run().reason is Reason.MODEL_ERROR
        model.script = [edit("docs/index.md", "colour", "color"), finish()]
        job = pushes.run()
        assert (job.reason, job.usage.requests, job.usage.input_tokens, job.usage.cost_usd) == (None, 5, 1020, 2)


def test_merge_is_created_again_on_another_machine(pushes: Pushes) -> None:
    pushes.run()
    pushed = pushes.push()
    mirrors = pushes.bench.desk.settings.mirrors_folder

    def lose_mirror() -> None:
        shutil.rmtree(mirrors)
        raise AttemptStopped

    pushes.model.during = lose_mirror
    pushes.send()
    claim = pushes.worker.queue.claim(pushes.worker.id)
    assert claim is not None
    pushes.worker.executor.execute(Attempt(claim, 120))
    pushes.worker.queue.release(pushes.worker.id, {claim.run_id})
    pushes.push("docs/three.md")
    pushes.work()
    assert (pushes.job.reason, pushes.job.base) == (None, pushed), pushes.job.message
    assert pushes.read("docs/two.md") == NEW
    assert pushes.read("docs/three.md") is None, "the run keeps the base that it has pinned"


def test_reason_for_reformatting_holds_in_later_runs_with_a_new_conversation(bench: Bench) -> None:
    old, new = "".join(f"* point {n}\n" for n in range(8)), "".join(f"- point {n}\n" for n in range(8))

    def reformat(_conversation: Conversation, workspace: Workspace) -> Reply:
        arguments = {"path": "docs/list.md", "hash": short_hash(workspace.read("docs/list.md")),
                     "replacements": [{"old": old, "new": new}], "reformat": "Dashes were asked for."}  # fmt: skip
        return calls(("edit", arguments))

    script: list[Turn] = [reformat, finish(), edit("docs/index.md", "colour", "color"), finish()]
    with open_pushes(bench, "automation", ScriptedModel(script)) as pushes:
        pushes.push("docs/list.md", f"# List\n\n{old}".encode())
        pushes.run()
        assert pushes.run().reason is None
        assert pushes.list_changed() == ["docs/index.md", "docs/list.md"]
        assert "Dashes were asked for." in pushes.read_pull()
        assert "the model gave no reason" not in pushes.read_pull()
