"""Actions of people and forges during a job: it continues correctly, or ends with a clear reason."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pygit2
import pytest

from copydesk.desk import Desk
from copydesk.jobs.agent.conversation import Conversation, ModelFailed, Reply
from copydesk.jobs.job import ARCHIVED, COMPLETED, FAILED, Job, Reason, RepositoryFailed
from copydesk.jobs.publish.repository_access import find_usable_branch
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.bench import JobBench, act_during_turn, start_bench
from tests.jobs.publish.forges.conftest import TOKEN
from tests.jobs.publish.forges.stage import FILES, create_project, fake_forge, read_file_on_branch, watch_calls
from tests.support.repositories import commit, list_branches
from tests.support.scripted_model import Turn, edit, finish

NEW_TOKEN = "another-token-of-the-desk-4712"
SPELL, DONE = edit("docs/index.md", "colour", "color"), finish("Spell color so")
RENAME, ALSO_DONE = edit("docs/other.md", "# Other", "# Another"), finish("Name the other")


def start_failure_bench(
    desk: Desk, fake: Any, *script: Turn, minutes: float = 30, haste: float = 200
) -> AbstractContextManager[JobBench]:
    project = create_project(desk, fake.kind.lower(), fake)
    return start_bench(fake, desk, project, *script, haste=haste, minutes=minutes)


def assert_failed_with(job: Job, reason: Reason, words: str) -> None:
    """Asserts that the job failed for this reason, with a message that has these words and no secret."""
    assert (job.status, job.reason) == (FAILED, reason), job.message
    assert job.message is not None
    assert re.search(words, job.message), job.message
    assert job.message.endswith(".")
    assert TOKEN not in job.message


# The token.


def test_a_token_revoked_while_the_agent_works_fails_the_job(desk: Desk, github: Any) -> None:
    with start_failure_bench(desk, github, act_during_turn(lambda: github.revoke(TOKEN), SPELL), DONE) as bench:
        assert_failed_with(bench.run_job(), Reason.REPOSITORY_ERROR, "refused the token: it may have expired")
    assert list_branches(github.repository.folder).keys() == {"main"}


@pytest.mark.deep
def test_a_token_revoked_before_the_push_fails_the_job(desk: Desk, github: Any) -> None:
    really = github.git_refusal

    def refusal(path: str, password: str | None, pushing: bool) -> tuple[int, str]:
        if pushing:
            github.revoke(TOKEN)
        answer: tuple[int, str] = really(path, password, pushing)
        return answer

    github.git_refusal = refusal
    with start_failure_bench(desk, github, SPELL, DONE) as bench:
        assert_failed_with(bench.run_job(), Reason.REPOSITORY_ERROR, "git push failed.*refused the token")
    assert list_branches(github.repository.folder).keys() == {"main"}


@pytest.mark.deep
def test_message_with_a_new_token_opens_the_pushed_branch(desk: Desk, fake: Any) -> None:
    def revoke(_moment: str, _line: str) -> None:
        if list_branches(fake.repository.folder).keys() != {"main"}:
            fake.revoke(TOKEN)

    watch_calls(fake, revoke)
    with start_failure_bench(desk, fake, SPELL, DONE, DONE) as bench:
        job = bench.run_job()
        assert_failed_with(job, Reason.REPOSITORY_ERROR, "rejected the token; it may have expired or been revoked")
        assert fake.pulls == []
        fake.add_token(NEW_TOKEN)
        desk.secrets.set(bench.project.id, "forge_token", NEW_TOKEN, actor="test")
        again = bench.run_follow_up(job, "Go on.")
        assert (again.status, bench.pull.head) == (COMPLETED, job.branch), again.message
    assert read_file_on_branch(fake, job.branch, "docs/index.md") == b"# Hello\n\nThe color of things.\n"


# The base.


def force_push(fake: Any, files: dict[str, bytes]) -> str:
    """Force-pushes main: replaces its newest commit by one with these files."""
    repository = pygit2.Repository(str(fake.repository.folder))
    main = repository.lookup_reference("refs/heads/main")
    before = repository[main.target].peel(pygit2.Commit).parents[0]
    repository.branches.local.create("rewritten", before)
    new = commit(repository, files, branch="rewritten")
    main.set_target(new)
    repository.branches.local.delete("rewritten")
    return new


@pytest.mark.deep
def test_a_base_that_was_force_pushed_gets_the_change_re_applied(desk: Desk, github: Any) -> None:
    github.commit("main", {"docs/dropped.md": b"# Dropped\n"})
    push = partial(force_push, github, {"docs/new.md": b"# New\n"})
    with start_failure_bench(desk, github, act_during_turn(push, SPELL), DONE) as bench:
        job = bench.run_job()
    assert job.status is COMPLETED, job.message
    assert "rebased" in (job.message or "")
    heads = list_branches(github.repository.folder)
    made = pygit2.Repository(str(github.repository.folder))[heads[job.branch]].peel(pygit2.Commit)
    assert [str(parent) for parent in made.parent_ids] == [heads["main"]]
    assert read_file_on_branch(github, job.branch, "docs/new.md") == b"# New\n"
    assert read_file_on_branch(github, job.branch, "docs/dropped.md") is None


@pytest.mark.deep
def test_conflict_with_a_force_pushed_base_is_reported(desk: Desk, github: Any) -> None:
    against = {"docs/index.md": b"# Hello\n\nThe hue of things.\n"}
    github.commit("main", {"docs/dropped.md": b"# Dropped\n"})
    with start_failure_bench(desk, github, act_during_turn(lambda: force_push(github, against), SPELL), DONE) as bench:
        job = bench.run_job()
        assert job.status is COMPLETED, job.message
        assert "conflicts with main" in (job.message or "")
        assert "conflicts with main" in bench.pull.body


@pytest.mark.deep
def test_follow_up_survives_a_force_push_of_its_base(desk: Desk, fake: Any) -> None:
    fake.commit("main", {"docs/dropped.md": b"# Dropped\n"})
    with start_failure_bench(desk, fake, SPELL, DONE, RENAME, ALSO_DONE) as bench:
        job = bench.run_job()
        force_push(fake, {"docs/new.md": b"# New\n"})
        again = bench.run_follow_up(job)
        assert (again.status, again.pr_link) == (COMPLETED, job.pr_link), again.message
        assert len(fake.pulls) == 1
    assert read_file_on_branch(fake, job.branch, "docs/other.md") == b"# Another\n"


@pytest.mark.deep
def test_a_base_that_was_deleted_while_the_agent_worked_fails_the_job(desk: Desk, github: Any) -> None:
    github.branch("next")
    with start_failure_bench(desk, github, act_during_turn(lambda: github.delete_branch("next"), SPELL), DONE) as bench:
        assert_failed_with(bench.run_job(ref="next"), Reason.REPOSITORY_ERROR, "The repository has no branch next")
    assert list_branches(github.repository.folder).keys() == {"main"}


@pytest.mark.deep
def test_a_base_that_was_deleted_before_the_opening_fails_the_job(desk: Desk, fake: Any) -> None:
    fake.branch("next")

    def delete(_moment: str, _line: str) -> None:
        if len(list_branches(fake.repository.folder)) == 3:
            fake.delete_branch("next")

    watch_calls(fake, delete)
    # on some forges the job waits until its time limit
    with start_failure_bench(desk, fake, SPELL, DONE, minutes=0.25, haste=10) as bench:
        assert_failed_with(bench.run_job(ref="next"), Reason.PUBLISH_REFUSED, "next|base|target")
    assert fake.pulls == []


# The job's branch, and its pull request.


def is_pull_complete(bench: Any, job: Job) -> bool:
    """Returns whether the pull request has the newest commit of the job's branch."""
    bench.pull.update_heads()
    return bool(bench.pull.sha == list_branches(bench.pull.repository.folder)[job.branch])


def assert_shows_all_commits_or_says_so(bench: Any, job: Job, last: Job) -> None:
    """Asserts that the reopened pull request has the newest commit; on Gitea, that the message says it has not."""
    keeps_old_commits = bench.project.forge in ("gitea", "forgejo")
    assert is_pull_complete(bench, job) is not keeps_old_commits
    assert ("shows only the commits" in (last.message or "")) is keeps_old_commits, last.message


@pytest.mark.deep
def test_branch_deleted_between_runs_is_recreated_for_its_pull_request(desk: Desk, fake: Any) -> None:
    with start_failure_bench(desk, fake, SPELL, DONE, RENAME, ALSO_DONE) as bench:
        job = bench.run_job()
        fake.delete_branch(job.branch)
        if bench.pull.closed:
            bench.pull.closed -= timedelta(minutes=1)
        again = bench.run_follow_up(job)
        assert (again.status, again.pr_link, bench.pull.state) == (COMPLETED, job.pr_link, "open"), again.message
        assert_shows_all_commits_or_says_so(bench, job, again)
    assert read_file_on_branch(fake, job.branch, "docs/other.md") == b"# Another\n"


@pytest.mark.deep
@pytest.mark.parametrize("done", ["deleted", "pushed to"])
def test_branch_changed_by_a_person_during_a_run_is_not_overwritten(desk: Desk, github: Any, done: str) -> None:
    def act() -> None:
        [branch] = list_branches(github.repository.folder).keys() - {"main"}
        if done == "deleted":
            github.delete_branch(branch)
        else:
            github.commit(branch, {"docs/by-hand.md": b"# By hand\n"})

    with start_failure_bench(desk, github, SPELL, DONE, act_during_turn(act, RENAME), ALSO_DONE) as bench:
        job = bench.run_job()
        again = bench.run_follow_up(job)
        assert_failed_with(again, Reason.REPOSITORY_ERROR, "Someone else changed the branch.*another message")
        assert len(github.pulls) == 1
    heads = list_branches(github.repository.folder)
    assert (job.branch in heads) == (done == "pushed to")
    assert done == "deleted" or read_file_on_branch(github, job.branch, "docs/by-hand.md") == b"# By hand\n"


@pytest.mark.deep
def test_pull_request_closed_during_a_run_stays_closed_until_the_next_message(desk: Desk, fake: Any) -> None:
    script = (SPELL, DONE, act_during_turn(lambda: fake.close(1), RENAME), ALSO_DONE, DONE)
    with start_failure_bench(desk, fake, *script) as bench:
        job = bench.run_job()
        again = bench.run_follow_up(job)
        assert_failed_with(again, Reason.PUBLISH_REFUSED, "closed while the agent was working.*Send another message")
        assert bench.pull.state == "closed"
        bench.pull.closed -= timedelta(minutes=1)
        third = bench.run_follow_up(job, "Open it again: heading too.")
        assert (third.status, third.pr_link, bench.pull.state) == (COMPLETED, job.pr_link, "open"), third.message
        assert_shows_all_commits_or_says_so(bench, job, third)
    assert read_file_on_branch(fake, job.branch, "docs/other.md") == b"# Another\n"


@pytest.mark.deep
def test_follow_up_on_a_closed_pull_request_is_in_the_reopened_one(desk: Desk, fake: Any) -> None:
    with start_failure_bench(desk, fake, SPELL, DONE, RENAME, ALSO_DONE) as bench:
        job = bench.run_job()
        fake.close(1)
        bench.pull.closed -= timedelta(minutes=1)
        again = bench.run_follow_up(job)
        assert (again.status, again.pr_link, bench.pull.state) == (COMPLETED, job.pr_link, "open"), again.message
        assert is_pull_complete(bench, job)
        assert "shows only the commits" not in (again.message or "")


@pytest.mark.deep
def test_webhook_of_a_closed_pull_request_ends_the_run(desk: Desk, github: Any) -> None:
    def act() -> None:
        github.close(1)
        desk.jobs.archive(bench.project.id, job.id)  # as the webhook does

    with start_failure_bench(desk, github, SPELL, DONE, act_during_turn(act, RENAME), ALSO_DONE) as bench:
        job = bench.run_job()
        assert bench.run_follow_up(job).status is ARCHIVED
        assert bench.raised_errors.wait(60)
        assert bench.pull.state == "closed"
    assert read_file_on_branch(github, job.branch, "docs/other.md") == FILES["docs/other.md"]


# The title, when the work of one run is published by another.

NOTHING_DONE = finish("No change", "Nothing was changed.")


@pytest.mark.deep
def test_follow_up_after_a_run_without_changes_has_its_own_title(desk: Desk, github: Any) -> None:
    with start_failure_bench(desk, github, NOTHING_DONE, SPELL, DONE) as bench:
        job = bench.run_job()
        assert (job.reason, job.title) == (Reason.NO_CHANGES, None)
        again = bench.run_follow_up(job)
        assert (again.title, bench.pull.title) == ("Spell color so", "Spell color so"), again.message


@pytest.mark.deep
def test_requested_title_survives_a_run_without_changes(desk: Desk, github: Any) -> None:
    with start_failure_bench(desk, github, NOTHING_DONE, SPELL, DONE) as bench:
        again = bench.run_follow_up(bench.run_job(title="American spelling"))
        assert (again.title, bench.pull.title) == ("American spelling", "American spelling"), again.message


@pytest.mark.deep
def test_follow_up_that_only_publishes_earlier_edits_has_their_title(desk: Desk, github: Any) -> None:
    protect = partial(github.faults.protect, "copydesk/*")
    done = finish("Spell color so", "One word was changed.")
    with start_failure_bench(desk, github, act_during_turn(protect, SPELL), done, NOTHING_DONE) as bench:
        job = bench.run_job()
        assert_failed_with(job, Reason.REPOSITORY_ERROR, "git push failed.*declined")
        github.faults.clear()
        again = bench.run_follow_up(job, "Try again.")
        assert (again.title, bench.pull.title) == ("Spell color so", "Spell color so"), again.message
        assert "One word was changed." in bench.pull.body
        assert "Nothing was changed." not in bench.pull.body
    head = list_branches(github.repository.folder)[job.branch]
    pushed = pygit2.Repository(str(github.repository.folder))[head].peel(pygit2.Commit)
    assert pushed.message.startswith("Spell color so\n")


@pytest.mark.deep
def test_edits_of_a_run_without_a_title_are_published_under_its_prompt(desk: Desk, github: Any) -> None:
    """The first run ends by an error of the model, after its edit and before it named its work."""

    def fail(_conversation: Conversation, _workspace: Workspace) -> Reply:
        raise ModelFailed("The provider is unavailable.")

    with start_failure_bench(desk, github, SPELL, fail) as bench:
        job = bench.run_job("Spell color as Americans do.")
        assert_failed_with(job, Reason.MODEL_ERROR, "provider is unavailable")
        bench.model.script = [SPELL, NOTHING_DONE]
        again = bench.run_follow_up(job, "Try again.")
        assert (again.title, bench.pull.title) == ("Spell color as Americans do.",) * 2, again.message


# Repositories that cannot be used, at the creation of a project and during a job.

UNUSABLE: dict[str, tuple[Callable[[Any], object], str]] = {
    "archived": (lambda fake: setattr(fake.repository, "archived", True), "is archived"),
    "fork": (lambda fake: setattr(fake.repository, "fork", True), "is a fork"),
    "protected": (lambda fake: fake.faults.protect("copydesk/*"), r"copydesk/"),
    "read-only": (lambda fake: setattr(fake.users["copydesk"], "access", "read"), "cannot be pushed to"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_unusable_repository_fails_with_its_reason_before_any_model_call(desk: Desk, fake: Any, what: str) -> None:
    if what == "protected":  # Gitea and Forgejo show it only to admins
        fake.users["copydesk"].access = "admin" if fake.kind in ("Gitea", "Forgejo") else "write"
    spoil, words = UNUSABLE[what]
    spoil(fake)
    with start_failure_bench(desk, fake, SPELL, DONE) as bench:
        with pytest.raises(RepositoryFailed, match=words):
            find_usable_branch(bench.project, desk.secrets.all(bench.project.id), None)
        assert_failed_with(bench.run_job(), Reason.REPOSITORY_ERROR, words)
        assert bench.model.requests == []
    assert list_branches(fake.repository.folder).keys() == {"main"}


def test_gitea_rule_for_top_level_branches_does_not_block_jobs(desk: Desk, tmp_path: Path) -> None:
    with fake_forge("gitea", tmp_path) as fake:
        fake.users["copydesk"].access = "admin"
        fake.faults.protect("*")
        project = create_project(desk, "gitea", fake)
        assert find_usable_branch(project, desk.secrets.all(project.id), None) == "main"


@pytest.mark.deep
def test_permissions_unknown_to_the_gitlab_api_are_decided_by_the_push(desk: Desk, tmp_path: Path) -> None:
    """For permissions through an invited group."""
    with fake_forge("gitlab", tmp_path) as fake:
        original = fake.adjust_response

        def adjust_response(call: Any, data: Any) -> Any:
            found = original(call, data)
            if isinstance(found, dict) and "permissions" in found:
                found["permissions"] = {"project_access": None, "group_access": None}
            return found

        fake.adjust_response = adjust_response
        with start_failure_bench(desk, fake, SPELL, DONE) as bench:
            job = bench.run_job()
            assert job.status is COMPLETED, job.message


@pytest.mark.deep
def test_branch_protected_during_a_job_fails_with_the_forges_message(desk: Desk, github: Any) -> None:
    with start_failure_bench(
        desk, github, act_during_turn(lambda: github.faults.protect("copydesk/*"), SPELL), DONE
    ) as bench:
        assert_failed_with(bench.run_job(), Reason.REPOSITORY_ERROR, "git push failed.*declined")


def test_empty_repository_fails_with_a_clear_message(desk: Desk, github: Any) -> None:
    pygit2.Repository(str(github.repository.folder)).references.delete("refs/heads/main")
    with start_failure_bench(desk, github, SPELL, DONE) as bench:
        with pytest.raises(RepositoryFailed, match="Push a first commit"):
            find_usable_branch(bench.project, desk.secrets.all(bench.project.id), None)
        assert_failed_with(bench.run_job(), Reason.REPOSITORY_ERROR, "has no branch main")
        assert bench.model.requests == []


@pytest.mark.deep
def test_a_default_branch_of_another_name_is_the_base(desk: Desk, tmp_path: Path) -> None:
    with fake_forge("gitlab", tmp_path, branch="trunk") as fake:
        project = create_project(desk, "gitlab", fake, ref="trunk")
        assert find_usable_branch(project, desk.secrets.all(project.id), None) == "trunk"
        with start_bench(fake, desk, project, SPELL, DONE) as bench:
            job = bench.run_job()
            assert (job.status, bench.pull.base) == (COMPLETED, "trunk"), job.message
