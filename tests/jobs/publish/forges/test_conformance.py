"""What holds on every forge: one pull request per job, a person's words and decisions, and sentences for refusals."""

import time
from pathlib import Path

import pytest

from copydesk.jobs.job import Reason, RepositoryFailed
from copydesk.jobs.publish.errors import BranchNotVisibleYet, ForgeRefused, ForgeUnavailable
from copydesk.jobs.publish.forges.forge import PullRequest
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.publish.retry import retry_while_unavailable
from tests.jobs.publish.forges.conftest import BRANCH, HOUR_AGO, TOKEN, Desk

OPENING = r"POST .*/(pulls|merge_requests)$"
SOON = 4102444800000
"""Later than anything that happens in a test."""


def number_of_pulls(desk: Desk) -> int:
    return len(desk.fake.pulls)


def only(desk: Desk) -> PullRequest:
    assert number_of_pulls(desk) == 1
    return desk.forge.get_pull(1)


# One pull request.


def test_a_pull_request_is_opened_from_the_branch_to_the_base(desk: Desk) -> None:
    published = desk.publish()
    found = only(desk)
    assert (found.state, found.title, found.branch, found.draft) == ("open", "Fix the links", BRANCH, False)
    assert "Three links were broken." in found.body
    assert published.pull.url == found.url
    assert published.pull.url.endswith("/1")
    assert desk.fake.pull(1).base == "main"
    assert published.notes == []


def test_publishing_again_finds_it_and_changes_nothing(desk: Desk) -> None:
    first = desk.publish().pull
    writes = len([request for request in desk.fake.requests if request.method != "GET"])
    assert desk.publish().pull.number == first.number
    assert number_of_pulls(desk) == 1
    assert len([request for request in desk.fake.requests if request.method != "GET"]) == writes


def test_an_answer_that_is_lost_after_opening_opens_no_second_one(desk: Desk) -> None:
    desk.fake.faults.lose_answer(where=OPENING)
    assert desk.publish().pull.number == 1
    assert number_of_pulls(desk) == 1


def test_one_that_is_not_yet_listed_is_taken_as_found(desk: Desk) -> None:
    desk.fake.faults.pull_lag(calls=3)
    desk.fake.faults.lose_answer(where=OPENING)
    assert desk.publish().pull.number == 1
    assert number_of_pulls(desk) == 1


def test_a_branch_that_the_forge_has_not_noticed_is_waited_for(desk: Desk) -> None:
    desk.fake.faults.branch_lag(calls=4)
    desk.fake.commit("copydesk/job_2", {"docs/more.md": b"# More\n"})
    desk.fake.delete_branch(BRANCH)
    desk.fake.commit(BRANCH, {"docs/index.md": b"# Hello again\n"})
    assert desk.publish().pull.number == 1


def test_a_branch_that_never_comes_is_a_refusal_in_the_forges_words(desk: Desk) -> None:
    desk.fake.delete_branch(BRANCH)
    with pytest.raises(BranchNotVisibleYet) as refused:
        desk.publish(seconds=0.5)
    assert refused.value.reason is Reason.PUBLISH_REFUSED
    assert number_of_pulls(desk) == 0


def test_of_two_open_ones_the_younger_is_closed(desk: Desk) -> None:
    author = desk.fake.users["copydesk"]
    for title in ("One", "Two"):
        desk.fake.open(desk.fake.repository, author=author, head=BRANCH, base="main", title=title, body="")
    assert desk.publish().pull.number == 1
    assert [desk.forge.get_pull(number).state for number in (1, 2)] == ["open", "closed"]
    assert "is the pull request of this branch" in desk.fake.pull(2).comments[0].body


def test_nothing_is_opened_by_a_worker_whose_claim_is_gone(desk: Desk) -> None:
    class Lost(Exception):
        pass

    def guard() -> None:
        raise Lost

    with pytest.raises(Lost):
        desk.publish(guard=guard)
    assert number_of_pulls(desk) == 0


# A forge that is away.


def test_a_forge_that_is_down_only_delays(desk: Desk) -> None:
    desk.fake.faults.answer(503, times=3)
    desk.fake.faults.html(status=502, times=2)
    desk.fake.faults.cut(times=1)
    assert desk.publish().pull.number == 1
    assert desk.pauses[:4] == [1, 2, 4, 8]


def test_a_secondary_limit_is_waited_out_as_long_as_the_forge_says(desk: Desk) -> None:
    desk.fake.faults.secondary_limit(retry_after=37, status=429 if desk.kind != "github" else 403)
    assert desk.publish().pull.number == 1
    assert desk.pauses == [37]


def test_a_forge_that_stays_away_ends_the_job_with_a_sentence(desk: Desk) -> None:
    desk.fake.faults.answer(503, times=1000)
    with pytest.raises(ForgeRefused, match="answered 503") as refused:
        desk.publish(seconds=0.5)
    assert refused.value.reason is Reason.REPOSITORY_ERROR


def test_a_push_waits_for_a_forge_that_is_away(desk: Desk, tmp_path: Path) -> None:
    git = Git(desk.fake.repository_url("acme/docs"), get_token=desk.forge.git_token)
    mirror = Mirror(tmp_path / "mirror.git", git)
    head = mirror.fetch_head(BRANCH)
    desk.fake.faults.answer(503, times=2, where="receive-pack")
    desk.fake.faults.cut(where="receive-pack")
    retry_while_unavailable(lambda: mirror.push(head, "copydesk/job_9", None), desk.pause, time.monotonic() + 60)
    assert desk.pauses == [1, 2, 4]
    assert mirror.fetch_head("copydesk/job_9") == head


def test_a_push_that_is_declined_is_not_repeated(desk: Desk, tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "mirror.git", Git(desk.fake.repository_url("acme/docs"), get_token=desk.forge.git_token))
    head = mirror.fetch_head(BRANCH)
    desk.fake.faults.protect("copydesk/*")
    with pytest.raises(RepositoryFailed, match=r"failed to push|declined"):
        retry_while_unavailable(lambda: mirror.push(head, "copydesk/job_9", None), desk.pause, time.monotonic() + 60)
    assert desk.pauses == []


def test_a_single_call_does_not_wait(desk: Desk) -> None:
    desk.fake.faults.answer(503)
    with pytest.raises(ForgeUnavailable):
        desk.forge.find_pulls(BRANCH, "main")


# Follow-ups, and what people did meanwhile.


def test_a_follow_up_rewrites_our_words_and_keeps_a_persons(desk: Desk) -> None:
    desk.publish()
    pull = desk.fake.pull(1)
    pull.body = f"Please hurry.\n\n{pull.body}"
    desk.publish("Fix all links", "Now seven links.", known=1)
    found = only(desk)
    assert found.body.startswith("Please hurry.")
    assert "Now seven links." in found.body
    assert "Three links" not in found.body
    assert found.title == "Fix all links"


def test_a_title_that_a_person_gave_is_kept(desk: Desk) -> None:
    desk.publish()
    desk.fake.pull(1).title = "Mend the links"
    desk.publish("Fix all links", "Now seven links.", known=1)
    desk.publish("Fix every link", "Now eight links.", known=1)
    assert only(desk).title == "Mend the links"
    assert "eight" in only(desk).body


def test_one_that_was_closed_while_the_agent_worked_stays_closed(desk: Desk) -> None:
    desk.publish()
    desk.fake.close(1)
    with pytest.raises(ForgeRefused, match=r"closed while the agent worked.*send another message") as refused:
        desk.publish(known=1, asked_at=HOUR_AGO)
    assert refused.value.reason is Reason.PUBLISH_REFUSED
    assert only(desk).state == "closed"


def test_one_that_was_closed_before_the_message_is_opened_again(desk: Desk) -> None:
    desk.publish()
    desk.fake.close(1)
    assert desk.publish("Again", "More.", known=1, asked_at=SOON).pull.number == 1
    assert only(desk).state == "open"


@pytest.mark.parametrize("desk", ["github", "gitlab"], indirect=True)  # the others open it without its branch
def test_one_that_cannot_be_opened_again_is_said_and_not_replaced(desk: Desk) -> None:
    desk.publish()
    desk.fake.close(1)
    desk.fake.delete_branch(BRANCH)
    with pytest.raises(ForgeRefused, match="was closed and cannot be opened again"):
        desk.publish("Again", "More.", known=1, asked_at=SOON)
    assert number_of_pulls(desk) == 1


def test_one_that_was_opened_and_closed_before_it_was_recorded_is_never_replaced(desk: Desk) -> None:
    desk.publish()
    desk.fake.close(1)
    with pytest.raises(ForgeRefused, match="closed while the agent worked"):
        desk.publish()
    assert number_of_pulls(desk) == 1


def test_one_that_was_merged_takes_no_more_changes(desk: Desk) -> None:
    desk.publish()
    desk.fake.merge(1)
    with pytest.raises(ForgeRefused, match=rf"Pull request 1 was merged meanwhile.*{BRANCH}"):
        desk.publish(known=1)
    assert only(desk).state == "merged"


def test_one_that_a_person_merged_before_we_recorded_it_is_a_success(desk: Desk) -> None:
    head = desk.publish().pull.head
    desk.fake.merge(1)
    assert desk.publish(head=head).pull.state == "merged"
    assert number_of_pulls(desk) == 1


def test_a_new_commit_of_the_branch_is_its_head(desk: Desk) -> None:
    desk.publish()
    head = desk.fake.commit(BRANCH, {"docs/index.md": b"# Hello, all\n"})
    assert only(desk).head == head


# Policy: drafts, labels, reviewers.


def test_a_draft_is_a_draft_with_a_plain_title_and_stays_one(desk: Desk) -> None:
    desk.publish(draft=True)
    assert (only(desk).draft, only(desk).title) == (True, "Fix the links")
    desk.publish("Fix all links", "More.", known=1, draft=True)
    assert (only(desk).draft, only(desk).title) == (True, "Fix all links")


def test_a_draft_that_a_person_made_ready_stays_ready(desk: Desk) -> None:
    desk.publish()
    desk.publish("Fix all links", "More.", known=1, draft=True)
    assert not only(desk).draft


def test_labels_are_added_and_a_missing_one_is_a_note(desk: Desk) -> None:
    desk.fake.repository.label("docs")
    published = desk.publish(labels=["docs", "no such"])
    assert desk.fake.pull(1).labels == ["docs"]
    assert len(published.notes) == 1
    assert "no label 'no such'" in published.notes[0]
    assert "no such" not in desk.fake.repository.labels


def test_reviewers_are_asked_and_a_stranger_is_a_note(desk: Desk) -> None:
    desk.fake.add_user("rosa")
    published = desk.publish(reviewers=["nobody-here", "rosa"])
    assert [user.login for user in desk.fake.pull(1).reviewers] == ["rosa"]
    assert [note.partition(" cannot be asked")[0] for note in published.notes] == ["nobody-here"]


# What is missing, in a sentence.


def test_a_good_set_up_lacks_nothing(desk: Desk) -> None:
    assert desk.forge.find_access_problems(BRANCH) == []


def test_a_repository_out_of_sight_is_said(desk: Desk) -> None:
    desk.fake.add_user("stranger", access="none")
    desk.fake.add_token("token-of-a-stranger", user="stranger")
    assert (
        "acme/docs, or the token may not see it"
        in desk.with_token("token-of-a-stranger").find_access_problems(BRANCH)[0]
    )


def test_a_reader_is_told_that_the_token_cannot_push(desk: Desk) -> None:
    desk.fake.add_user("reader", access="read")
    desk.fake.add_token("token-of-a-reader", user="reader")
    assert "cannot be pushed to with this token" in desk.with_token("token-of-a-reader").find_access_problems(BRANCH)[0]


def test_an_archived_repository_is_said(desk: Desk) -> None:
    desk.fake.repository.archived = True
    assert "is archived" in desk.forge.find_access_problems(BRANCH)[0]


def test_a_fork_is_said(desk: Desk) -> None:
    desk.fake.repository.fork = True
    assert "is a fork" in desk.forge.find_access_problems(BRANCH)[0]


def test_a_branch_that_is_protected_is_said(desk: Desk) -> None:
    if desk.kind in ("gitea", "forgejo"):  # they tell nobody else
        desk.fake.users["copydesk"].access = "admin"
    desk.fake.faults.protect("copydesk/*")
    assert f"branches such as {BRANCH}" in desk.forge.find_access_problems(BRANCH)[0]


@pytest.mark.parametrize("desk", ["github"], indirect=True)
def test_a_rule_that_the_token_may_bypass_is_no_hindrance(desk: Desk) -> None:
    desk.fake.users["copydesk"].access = "admin"
    desk.fake.faults.protect("copydesk/*")
    assert desk.forge.find_access_problems(BRANCH) == []


def test_a_renamed_repository_is_said_and_the_token_sent_nowhere_else(desk: Desk) -> None:
    desk.fake.rename("acme/docs", "acme/handbook")
    with pytest.raises(ForgeRefused, match=r"has moved|404"):
        desk.publish()
    assert number_of_pulls(desk) == 0


def test_a_token_that_ends_in_mid_job_is_said_without_the_token(desk: Desk) -> None:
    desk.publish()
    desk.fake.revoke(TOKEN)
    with pytest.raises(ForgeRefused, match="expired or been revoked") as refused:
        desk.publish("Again", "More.", known=1)
    assert refused.value.reason is Reason.REPOSITORY_ERROR
    assert TOKEN not in str(refused.value)


# People.


@pytest.mark.parametrize(("access", "may"), [("admin", True), ("maintain", True), ("write", True), ("read", False)])
def test_who_may_write_is_asked_of_the_forge(desk: Desk, access: str, may: bool) -> None:
    desk.fake.add_user("rosa", access=access)
    assert desk.forge.can_write("rosa") is may


def test_a_stranger_may_not_write(desk: Desk) -> None:
    assert not desk.forge.can_write("nobody-here")


def test_a_comment_of_ours_is_marked_as_ours(desk: Desk) -> None:
    desk.publish()
    desk.forge.add_comment(1, "This was not taken up.")
    assert desk.fake.pull(1).comments[0].body == "This was not taken up.\n\n<!-- copydesk:said -->"
