"""Rules for every forge: one pull request per job, respect for people's edits and decisions, clear refusals."""

import re
import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest

from copydesk.jobs.job import Reason, RepositoryFailed
from copydesk.jobs.publish.errors import BranchNotVisibleYet, ForgeRefused, ForgeUnavailable
from copydesk.jobs.publish.forge_retry import retry_while_unavailable
from copydesk.jobs.publish.forges.forge import Proposal, PullRequest
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from tests.jobs.publish.forges.conftest import BRANCH, HOUR_AGO_MS, TOKEN, ForgeBench

OPENING = r"POST .*/(pulls|merge_requests)$"
SOON = 4102444800000
"""Later than any event in a test."""


def count_pulls(desk: ForgeBench) -> int:
    return len(desk.fake.pulls)


def get_only_pull(desk: ForgeBench) -> PullRequest:
    assert count_pulls(desk) == 1
    return desk.forge.get_pull(1)


# One pull request.


def test_a_pull_request_is_opened_from_the_branch_to_the_base(desk: ForgeBench) -> None:
    published = desk.publish()
    found = get_only_pull(desk)
    assert (found.state, found.title, found.branch, found.draft) == ("open", "Fix the links", BRANCH, False)
    assert "Three links were broken." in found.body
    assert published.pull.url == found.url
    assert published.pull.url.endswith("/1")
    assert desk.fake.pull(1).base == "main"
    assert published.notes == []


def test_publishing_again_finds_the_pull_request_and_changes_nothing(desk: ForgeBench) -> None:
    first = desk.publish().pull
    writes = len([request for request in desk.fake.requests if request.method != "GET"])
    assert desk.publish().pull.number == first.number
    assert count_pulls(desk) == 1
    assert len([request for request in desk.fake.requests if request.method != "GET"]) == writes


def test_lost_response_to_opening_opens_no_second_pull_request(desk: ForgeBench) -> None:
    desk.fake.faults.lose_answer(where=OPENING)
    assert desk.publish().pull.number == 1
    assert count_pulls(desk) == 1


def test_pull_request_not_yet_listed_is_found(desk: ForgeBench) -> None:
    desk.fake.faults.pull_lag(calls=3)
    desk.fake.faults.lose_answer(where=OPENING)
    assert desk.publish().pull.number == 1
    assert count_pulls(desk) == 1


def test_branch_not_yet_visible_to_the_forge_is_waited_for(desk: ForgeBench) -> None:
    desk.fake.faults.branch_lag(calls=4)
    desk.fake.commit("copydesk/job_2", {"docs/more.md": b"# More\n"})
    desk.fake.delete_branch(BRANCH)
    desk.fake.commit(BRANCH, {"docs/index.md": b"# Hello again\n"})
    assert desk.publish().pull.number == 1


def test_branch_that_never_becomes_visible_fails_with_the_forges_message(desk: ForgeBench) -> None:
    desk.fake.delete_branch(BRANCH)
    with pytest.raises(BranchNotVisibleYet) as refused:
        desk.publish(seconds=0.5)
    assert refused.value.reason is Reason.PUBLISH_REFUSED
    assert count_pulls(desk) == 0


def test_newer_of_two_open_pull_requests_is_closed(desk: ForgeBench) -> None:
    author = desk.fake.users["copydesk"]
    for title in ("One", "Two"):
        desk.fake.open(desk.fake.repository, author=author, head=BRANCH, base="main", title=title, body="")
    assert desk.publish().pull.number == 1
    assert [desk.forge.get_pull(number).state for number in (1, 2)] == ["open", "closed"]
    assert "is the pull request of this branch" in desk.fake.pull(2).comments[0].body


def test_worker_that_lost_its_lease_opens_nothing(desk: ForgeBench) -> None:
    class Lost(Exception):
        pass

    def guard() -> None:
        raise Lost

    with pytest.raises(Lost):
        desk.publish(guard=guard)
    assert count_pulls(desk) == 0


# An unavailable forge.


def test_forge_outage_only_delays(desk: ForgeBench) -> None:
    desk.fake.faults.answer(503, times=3)
    desk.fake.faults.html(status=502, times=2)
    desk.fake.faults.cut(times=1)
    assert desk.publish().pull.number == 1
    assert desk.pauses[:4] == [1, 2, 4, 8]


def test_secondary_rate_limit_is_waited_out(desk: ForgeBench) -> None:
    desk.fake.faults.secondary_limit(retry_after=37, status=429 if desk.kind != "github" else 403)
    assert desk.publish().pull.number == 1
    assert desk.pauses == [37]


@pytest.mark.parametrize("desk", ["github"], indirect=True)
def test_secondary_rate_limit_without_a_time_is_waited_out_for_a_minute(desk: ForgeBench) -> None:
    desk.fake.faults.secondary_limit(retry_after=None, status=403)
    assert desk.publish().pull.number == 1
    assert desk.pauses == [60]


def test_permanent_outage_fails_the_job_with_a_message(desk: ForgeBench) -> None:
    desk.fake.faults.answer(503, times=1000)
    with pytest.raises(ForgeRefused, match="answered 503") as refused:
        desk.publish(seconds=0.5)
    assert refused.value.reason is Reason.REPOSITORY_ERROR


@pytest.mark.deep
def test_push_waits_for_an_unavailable_forge(desk: ForgeBench, tmp_path: Path) -> None:
    git = Git(desk.fake.repository_url("acme/docs"), get_token=desk.forge.git_token)
    mirror = Mirror(tmp_path / "mirror.git", git)
    head = mirror.fetch_head(BRANCH)
    desk.fake.faults.answer(503, times=2, where="receive-pack")
    desk.fake.faults.cut(where="receive-pack")
    retry_while_unavailable(lambda: mirror.push(head, "copydesk/job_9", None), desk.pause, time.monotonic() + 60)
    assert desk.pauses == [1, 2, 4]
    assert mirror.fetch_head("copydesk/job_9") == head


def test_rejected_push_is_not_retried(desk: ForgeBench, tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "mirror.git", Git(desk.fake.repository_url("acme/docs"), get_token=desk.forge.git_token))
    head = mirror.fetch_head(BRANCH)
    desk.fake.faults.protect("copydesk/*")
    with pytest.raises(RepositoryFailed, match=r"declined|protect") as refused:
        retry_while_unavailable(lambda: mirror.push(head, "copydesk/job_9", None), desk.pause, time.monotonic() + 60)
    assert desk.pauses == []
    said = desk.fake.rejection_text.replace("REF", "refs/heads/copydesk/job_9").replace("BRANCH", "copydesk/job_9")
    for line in said.splitlines():  # all that the forge says, although it ends with a blank line
        assert re.sub(r"^(Gitea|Forgejo|error): ?", "", line.strip()) in str(refused.value)


def test_comment_on_a_line_counts_from_its_review(desk: ForgeBench) -> None:
    """A comment is written while its review is pending, and visible when the review is submitted."""
    desk.forge.open_pull(Proposal(BRANCH, "main", "Fix the links", "Three."))
    comment = desk.fake.comment(1, "Shorter, please.", file="docs/index.md", line=3)
    if desk.kind != "gitlab":  # GitLab dates a comment when it is submitted
        comment.submitted, comment.created = comment.created, comment.created - timedelta(hours=3)
    since = int((comment.submitted or comment.created).timestamp() * 1000) - 60_000
    is_dated = desk.kind == "gitlab" or not getattr(desk.fake, "version", None) or desk.fake.version >= (1, 19)
    assert [(found.path, found.line) for found in desk.forge.list_comments(1, since)] == (
        [("docs/index.md", 3)] if is_dated else []
    )
    assert [found.line for found in desk.forge.list_comments(1, since - 4 * 3_600_000)] == [3]
    assert desk.forge.list_comments(1, since + 120_000) == []


def test_single_call_does_not_retry(desk: ForgeBench) -> None:
    desk.fake.faults.answer(503)
    with pytest.raises(ForgeUnavailable):
        desk.forge.find_pulls(BRANCH, "main")


# Follow-ups, and actions of people in between.


def test_follow_up_updates_our_text_and_keeps_text_by_people(desk: ForgeBench) -> None:
    desk.publish()
    pull = desk.fake.pull(1)
    pull.body = f"Please hurry.\n\n{pull.body}"
    desk.publish("Fix all links", "Now seven links.", known=1)
    found = get_only_pull(desk)
    assert found.body.startswith("Please hurry.")
    assert "Now seven links." in found.body
    assert "Three links" not in found.body
    assert found.title == "Fix all links"


def test_title_set_by_a_person_is_kept(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.pull(1).title = "Mend the links"
    desk.publish("Fix all links", "Now seven links.", known=1)
    desk.publish("Fix every link", "Now eight links.", known=1)
    assert get_only_pull(desk).title == "Mend the links"
    assert "eight" in get_only_pull(desk).body


def test_pull_request_closed_during_the_run_stays_closed(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.close(1)
    with pytest.raises(ForgeRefused, match=r"closed while the agent was working.*Send another message") as refused:
        desk.publish(known=1, asked_at=HOUR_AGO_MS)
    assert refused.value.reason is Reason.PUBLISH_REFUSED
    assert get_only_pull(desk).state == "closed"


def test_pull_request_closed_before_the_message_is_reopened(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.close(1)
    assert desk.publish("Again", "More.", known=1, asked_at=SOON).pull.number == 1
    assert get_only_pull(desk).state == "open"


@pytest.mark.parametrize("desk", ["github", "gitlab"], indirect=True)  # the other forges open it without its branch
def test_pull_request_that_cannot_be_reopened_is_reported_and_not_replaced(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.close(1)
    desk.fake.delete_branch(BRANCH)
    with pytest.raises(ForgeRefused, match="was closed and cannot be reopened"):
        desk.publish("Again", "More.", known=1, asked_at=SOON)
    assert count_pulls(desk) == 1


def test_pull_request_closed_before_it_was_recorded_is_not_replaced(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.close(1)
    with pytest.raises(ForgeRefused, match="closed while the agent was working"):
        desk.publish()
    assert count_pulls(desk) == 1


def test_merged_pull_request_takes_no_more_changes(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.merge(1)
    with pytest.raises(ForgeRefused, match=rf"Pull request 1 was merged in the meantime.*{BRANCH}"):
        desk.publish(known=1)
    assert get_only_pull(desk).state == "merged"


def test_pull_request_merged_before_it_was_recorded_is_a_success(desk: ForgeBench) -> None:
    head = desk.publish().pull.head
    desk.fake.merge(1)
    assert desk.publish(head=head).pull.state == "merged"
    assert count_pulls(desk) == 1


def test_work_pushed_after_the_merge_is_not_reported_as_merged(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.merge(1)
    later = desk.fake.commit(BRANCH, {"docs/later.md": b"# Later\n"})
    for known in (1, None):
        with pytest.raises(ForgeRefused, match=rf"Pull request 1 was merged in the meantime.*{BRANCH}"):
            desk.publish(known=known, head=later)
    assert count_pulls(desk) == 1


def test_work_on_a_recreated_branch_of_a_merged_pull_request_is_not_reported_as_merged(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.merge(1)
    desk.fake.delete_branch(BRANCH)
    later = desk.fake.commit(BRANCH, {"docs/later.md": b"# Later\n"})
    with pytest.raises(ForgeRefused, match="Pull request 1 was merged in the meantime"):
        desk.publish(known=1, head=later)
    assert count_pulls(desk) == 1


def test_pull_request_merged_with_later_commits_of_people_is_a_success(desk: ForgeBench) -> None:
    head = desk.publish().pull.head
    for number in range(60):  # more commits than a page has on Gitea
        desk.fake.commit(BRANCH, {"docs/people.md": f"# {number}\n".encode()})
    desk.fake.merge(1)
    assert desk.publish(head=head).pull.state == "merged"


def test_merged_pull_request_of_a_deleted_branch_is_found(desk: ForgeBench) -> None:
    head = desk.publish().pull.head
    desk.fake.merge(1)
    desk.fake.delete_branch(BRANCH)
    assert [(pull.number, pull.branch) for pull in desk.forge.find_pulls(BRANCH, "main")] == [(1, BRANCH)]
    assert desk.forge.get_pull(1).branch == BRANCH
    assert desk.publish(head=head).pull.state == "merged"
    assert count_pulls(desk) == 1


def test_recorded_pull_request_of_another_branch_is_not_changed(desk: ForgeBench) -> None:
    """The number belongs to another pull request after the repository was deleted and created again."""
    desk.fake.commit("their-branch", {"docs/theirs.md": b"# Theirs\n"})
    author = desk.fake.users["copydesk"]
    desk.fake.open(
        desk.fake.repository, author=author, head="their-branch", base="main", title="Their work", body="Their text."
    )
    for close in (False, True):
        if close:
            desk.fake.close(1)
        with pytest.raises(ForgeRefused, match=rf"Pull request 1 .* their-branch.*{BRANCH}"):
            desk.publish(known=1, asked_at=SOON)
    assert [request.method for request in desk.fake.requests if request.method != "GET"] == []
    assert (desk.fake.pull(1).title, desk.fake.pull(1).body) == ("Their work", "Their text.")


def test_pull_request_of_the_branch_is_used_instead_of_the_recorded_one_of_another_branch(desk: ForgeBench) -> None:
    desk.fake.commit("their-branch", {"docs/theirs.md": b"# Theirs\n"})
    author = desk.fake.users["copydesk"]
    desk.fake.open(desk.fake.repository, author=author, head="their-branch", base="main", title="Their work", body="")
    desk.publish()
    assert desk.publish("Fix all links", "More.", known=1).pull.number == 2
    assert (desk.fake.pull(1).title, desk.fake.pull(2).title) == ("Their work", "Fix all links")


def test_new_commit_becomes_the_head_of_the_pull_request(desk: ForgeBench) -> None:
    desk.publish()
    head = desk.fake.commit(BRANCH, {"docs/index.md": b"# Hello, all\n"})
    assert get_only_pull(desk).head == head


# Policy: drafts, labels, reviewers.


def test_draft_has_a_plain_title_and_stays_a_draft(desk: ForgeBench) -> None:
    desk.publish(draft=True)
    assert (get_only_pull(desk).draft, get_only_pull(desk).title) == (True, "Fix the links")
    desk.publish("Fix all links", "More.", known=1, draft=True)
    assert (get_only_pull(desk).draft, get_only_pull(desk).title) == (True, "Fix all links")


def test_a_draft_that_a_person_made_ready_stays_ready(desk: ForgeBench) -> None:
    desk.publish()
    desk.publish("Fix all links", "More.", known=1, draft=True)
    assert not get_only_pull(desk).draft


def test_labels_are_added_and_missing_ones_are_noted(desk: ForgeBench) -> None:
    desk.fake.repository.label("docs")
    published = desk.publish(labels=["docs", "no such"])
    assert desk.fake.pull(1).labels == ["docs"]
    assert len(published.notes) == 1
    assert "no label 'no such'" in published.notes[0]
    assert "no such" not in desk.fake.repository.labels


def test_label_beyond_the_first_page_is_added(desk: ForgeBench) -> None:
    for number in range(130):
        desk.fake.repository.label(f"label-{number}")
    published = desk.publish(labels=["label-117", "no such"])
    assert desk.fake.pull(1).labels == ["label-117"]
    assert [note for note in published.notes if "label-117" in note] == []
    assert len(published.notes) == 1


def test_reviewers_are_requested_and_unknown_ones_are_noted(desk: ForgeBench) -> None:
    desk.fake.add_user("rosa")
    published = desk.publish(reviewers=["nobody-here", "rosa"])
    assert [user.login for user in desk.fake.pull(1).reviewers] == ["rosa"]
    assert [note.partition(" could not be added")[0] for note in published.notes] == ["nobody-here"]


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_reviewer_that_gitlab_drops_in_silence_is_noted(desk: ForgeBench) -> None:
    for name in ("rosa", "emma"):
        desk.fake.add_user(name)
    published = desk.publish(reviewers=["rosa", "emma"])
    assert [user.login for user in desk.fake.pull(1).reviewers] == ["rosa"]
    [note] = published.notes
    assert note.startswith("emma could not be added as a reviewer: ")
    assert "free tier" in note


@pytest.mark.parametrize("desk", ["github"], indirect=True)
def test_draft_becomes_a_ready_pull_request_if_the_plan_has_no_drafts(desk: ForgeBench) -> None:
    desk.fake.repository.has_drafts = False
    assert "does not support drafts" in desk.publish(draft=True).notes[0]
    assert not get_only_pull(desk).draft


# Lengths.


def test_long_title_and_text_are_shortened_to_what_the_forge_accepts(desk: ForgeBench) -> None:
    desk.publish("A title " * 60, "A long text. " * 10_000, draft=True)
    found = get_only_pull(desk)
    assert found.title.startswith("A title")
    assert found.body.endswith("<!-- copydesk:end -->")


def test_long_text_by_people_is_kept_when_ours_is_updated(desk: ForgeBench) -> None:
    desk.publish(body="One. " * 1000)
    pull = desk.fake.pull(1)
    pull.body = f"{'People wrote this. ' * 2500}\n\n{pull.body}"
    desk.publish("Again", "Two. " * 11_000, known=1)
    assert get_only_pull(desk).body.startswith("People wrote this. " * 2500)
    assert "Two. " in get_only_pull(desk).body


# Clear errors for missing permissions and settings.


def test_correct_setup_has_no_access_problems(desk: ForgeBench) -> None:
    assert desk.forge.find_access_problems(BRANCH) == []


def test_invisible_repository_is_reported(desk: ForgeBench) -> None:
    desk.fake.add_user("stranger", access="none")
    desk.fake.add_token("token-of-a-stranger", user="stranger")
    assert (
        "acme/docs, or the token has no access to it"
        in desk.forge_with_token("token-of-a-stranger").find_access_problems(BRANCH)[0]
    )


def test_read_only_token_is_reported(desk: ForgeBench) -> None:
    desk.fake.add_user("reader", access="read")
    desk.fake.add_token("token-of-a-reader", user="reader")
    assert (
        "cannot be pushed to with this token"
        in desk.forge_with_token("token-of-a-reader").find_access_problems(BRANCH)[0]
    )


def test_archived_repository_is_reported(desk: ForgeBench) -> None:
    desk.fake.repository.archived = True
    assert "is archived" in desk.forge.find_access_problems(BRANCH)[0]


def test_fork_is_reported(desk: ForgeBench) -> None:
    desk.fake.repository.fork = True
    assert "is a fork" in desk.forge.find_access_problems(BRANCH)[0]


def test_protected_branch_is_reported(desk: ForgeBench) -> None:
    if desk.kind in ("gitea", "forgejo"):  # they show it only to admins
        desk.fake.users["copydesk"].access = "admin"
    desk.fake.faults.protect("copydesk/*")
    assert f"branches such as {BRANCH}" in desk.forge.find_access_problems(BRANCH)[0]


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
@pytest.mark.parametrize("scopes", [{"granular"}, set()], ids=["granular", "empty"])
def test_token_that_does_not_tell_its_scopes_is_not_reported(desk: ForgeBench, scopes: set[str]) -> None:
    token = desk.fake.add_token("glpat-fine-grained", scopes=frozenset({"granular"}))
    forge = desk.forge_with_token("glpat-fine-grained")
    assert forge.find_access_problems(BRANCH) == []
    desk.fake.shown_scopes = scopes
    assert forge.find_access_problems(BRANCH) == []
    assert token.alive


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_token_without_the_scope_api_is_reported(desk: ForgeBench) -> None:
    desk.fake.add_token("glpat-reads", scopes=frozenset({"read_api"}))
    assert "lacks the scope api" in desk.forge_with_token("glpat-reads").find_access_problems(BRANCH)[0]


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_refusal_that_mentions_the_source_is_not_waited_for(desk: ForgeBench) -> None:
    proposal = Proposal(branch="main", base="main", title="Same", body="")
    with pytest.raises(ForgeRefused, match="same project/branch for source and target") as refused:
        desk.forge.open_pull(proposal)
    assert not isinstance(refused.value, BranchNotVisibleYet)


@pytest.mark.parametrize("desk", ["github"], indirect=True)
def test_branch_rule_that_the_token_may_bypass_is_not_reported(desk: ForgeBench) -> None:
    desk.fake.users["copydesk"].access = "admin"
    desk.fake.faults.protect("copydesk/*")
    assert desk.forge.find_access_problems(BRANCH) == []


def test_renamed_repository_is_reported_and_redirect_gets_no_token(desk: ForgeBench) -> None:
    desk.fake.rename("acme/docs", "acme/handbook")
    before = len(desk.fake.requests)
    with pytest.raises(ForgeRefused, match=r"says that the repository has moved"):
        desk.publish()
    sent = [request for request in desk.fake.requests[before:] if "/version" not in request.path]
    assert [request.status in (301, 302) for request in sent] == [True], "every request has the token; none followed"
    assert "acme/docs" in unquote(sent[0].path)
    assert count_pulls(desk) == 0


def test_token_expired_during_a_job_is_reported_without_showing_it(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.revoke(TOKEN)
    with pytest.raises(ForgeRefused, match="expired or been revoked") as refused:
        desk.publish("Again", "More.", known=1)
    assert refused.value.reason is Reason.REPOSITORY_ERROR
    assert TOKEN not in str(refused.value)


# People.


@pytest.mark.parametrize(("access", "may"), [("admin", True), ("maintain", True), ("write", True), ("read", False)])
def test_write_permission_is_asked_from_the_forge(desk: ForgeBench, access: str, may: bool) -> None:
    desk.fake.add_user("rosa", access=access)
    assert desk.forge.can_write("rosa") is may


def test_unknown_user_may_not_write(desk: ForgeBench) -> None:
    assert not desk.forge.can_write("nobody-here")


def test_our_comments_carry_a_marker(desk: ForgeBench) -> None:
    desk.publish()
    desk.forge.add_comment(1, "This was not taken up.")
    assert desk.fake.pull(1).comments[0].body == "This was not taken up.\n\n<!-- copydesk:said -->"
