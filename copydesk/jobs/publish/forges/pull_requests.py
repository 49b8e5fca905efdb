"""Creates or updates the single pull request of a job's branch. Safe to repeat after a crash at any point."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from copydesk.jobs.job import JobFailed
from copydesk.jobs.publish.errors import BranchNotVisibleYet, ForgeRefused, PullAlreadyOpen
from copydesk.jobs.publish.forge_retry import Pause, retry_while_unavailable
from copydesk.jobs.publish.forges.forge import Forge, Proposal, PullRequest
from copydesk.jobs.publish.forges.markers import (
    is_our_title,
    parse_pull_number,
    replace_marked_part,
    truncate_title,
    wrap_in_markers,
)

BRANCH_VISIBLE_TIMEOUT_SECONDS = 45.0
BRANCH_CHECK_INTERVAL_SECONDS = 2.0


@dataclass(frozen=True)
class PublishedPull:
    pull: PullRequest
    notes: Sequence[str]
    """Messages for people, such as a label that does not exist or a reviewer that could not be added."""


def create_or_update_pull(
    forge: Forge,
    proposal: Proposal,
    *,
    known_number: int | None,
    requested_at: int,
    before_change: Callable[[], None],
    pause: Pause,
    deadline: float,
) -> PublishedPull:
    """Finds, opens or updates the pull request, with retries until the deadline.

    `known_number` is the job's recorded pull request; `requested_at` is when this run was requested, in milliseconds.
    `before_change` is called right before each change and raises when this worker no longer owns the job. Each attempt
    looks for existing pull requests first, because an attempt that crashed or timed out may have opened one.
    """
    proposal = replace(proposal, title=truncate_title(proposal.title))
    give_up_at = min(deadline, time.monotonic() + BRANCH_VISIBLE_TIMEOUT_SECONDS)
    while True:
        try:
            return retry_while_unavailable(
                lambda: _try_create_or_update(forge, proposal, known_number, requested_at, before_change),
                pause,
                deadline,
            )
        except BranchNotVisibleYet as refusal:
            reason = str(refusal)
            if time.monotonic() + BRANCH_CHECK_INTERVAL_SECONDS > give_up_at:
                raise
        pause(BRANCH_CHECK_INTERVAL_SECONDS, reason)


def reopen_before_push(
    forge: Forge, link: str, branch: str, requested_at: int, before_change: Callable[[], None]
) -> None:
    """Reopens a pull request that was closed before this run was requested, if the forge would ignore the push."""
    number = parse_pull_number(link)
    if number is None or not forge.ignores_pushes_while_closed:
        return
    with suppress(ForgeRefused):  # reported after the push, when the pull request is updated
        pull = forge.get_pull(number)
        if pull.state == "closed" and pull.branch == branch and pull.closed_before(requested_at):
            before_change()
            forge.reopen_pull(number)


def _try_create_or_update(
    forge: Forge, proposal: Proposal, known_number: int | None, requested_at: int, before_change: Callable[[], None]
) -> PublishedPull:
    pulls = forge.find_pulls(proposal.branch, proposal.base)
    if known_number is not None and all(pull.number != known_number for pull in pulls):
        recorded = _get_recorded_pull(forge, known_number)
        if recorded.branch == proposal.branch:
            pulls.append(recorded)
        elif not pulls:
            raise _refuse_pull_of_another_branch(recorded, proposal.branch)
    current = _choose_pull(pulls, known_number)
    notes: list[str] = []
    if current is None:
        before_change()
        current = _open_pull(forge, proposal)
        if proposal.draft and not current.draft:
            notes.append("This repository does not support drafts, so the pull request was opened as ready for review.")
    elif current.state == "merged" and proposal.head and forge.pull_contains(current.number, proposal.head):
        return PublishedPull(current, notes)  # merged before we recorded it
    else:
        _refuse_closed(current, requested_at)
        before_change()
        if current.state == "closed":
            _reopen_pull(forge, current)
            notes += _note_missing_commit(forge, current, proposal.head)
        _update_text(forge, current, proposal)
    if known_number is None:
        before_change()
        notes += _try_adding(forge.add_labels, current.number, proposal.labels)
        notes += _try_adding(forge.request_reviewers, current.number, proposal.reviewers)
        current = _close_duplicates(forge, proposal, current)
    return PublishedPull(current, notes)


def _get_recorded_pull(forge: Forge, number: int) -> PullRequest:
    try:
        return forge.get_pull(number)
    except ForgeRefused as refusal:
        if refusal.status != 404:
            raise
        raise ForgeRefused(f"This job's pull request {number} no longer exists.", status=404) from None


def _refuse_pull_of_another_branch(pull: PullRequest, branch: str) -> ForgeRefused:
    """Returns the refusal to change a pull request whose number was this job's before the repository was recreated."""
    return ForgeRefused(
        f"Pull request {pull.number} belongs to the branch {pull.branch} and not to this job, so it was not changed. "
        "The repository may have been deleted and created again. The changes are on the branch "
        f"{branch}. Start a new job to publish them."
    )


def _try_adding(add: Callable[[int, Sequence[str]], list[str]], number: int, names: Sequence[str]) -> list[str]:
    """Adds labels or reviewers. Returns a refusal as a note, because the pull request itself is open."""
    try:
        return add(number, names)
    except ForgeRefused as refusal:
        return [f"{', '.join(names)} could not be added: {refusal}"]


def _choose_pull(pulls: Sequence[PullRequest], known_number: int | None) -> PullRequest | None:
    """Returns the recorded pull request, else the oldest open one, else the newest; None if there are none.

    Reusing a closed one keeps each job to a single pull request.
    """
    recorded = [pull for pull in pulls if pull.number == known_number]
    open_pulls = [pull for pull in pulls if pull.state == "open"]
    return next(iter([*recorded, *open_pulls, *reversed(pulls)]), None)


def _refuse_closed(pull: PullRequest, requested_at: int) -> None:
    if pull.state == "merged":
        raise ForgeRefused(
            f"Pull request {pull.number} was merged in the meantime and cannot be changed anymore. The new changes are "
            f"on the branch {pull.branch}. Start a new job to publish them."
        )
    if pull.state == "closed" and not pull.closed_before(requested_at):
        raise ForgeRefused(
            f"Pull request {pull.number} was closed while the agent was working, so it stays closed. The changes are "
            f"on the branch {pull.branch}. Send another message to reopen the pull request."
        )


def _open_pull(forge: Forge, proposal: Proposal) -> PullRequest:
    try:
        return forge.open_pull(replace(proposal, body=wrap_in_markers(proposal.title, proposal.body)))
    except PullAlreadyOpen as refusal:
        for pull in forge.find_pulls(proposal.branch, proposal.base):
            if pull.state == "open":
                return pull
        # The pull request exists, but the forge does not list it yet.
        raise BranchNotVisibleYet(str(refusal), status=refusal.status) from None


def _reopen_pull(forge: Forge, pull: PullRequest) -> None:
    """Reopens a pull request, and checks that it is open: GitLab may report success without reopening it."""
    reason = f"{forge.repository} keeps it closed"
    try:
        forge.reopen_pull(pull.number)
        if forge.get_pull(pull.number).state == "open":
            return
    except ForgeRefused as refusal:
        reason = str(refusal)
    raise ForgeRefused(f"Pull request {pull.number} was closed and cannot be reopened: {reason}")


def _note_missing_commit(forge: Forge, pull: PullRequest, head: str | None) -> list[str]:
    """Returns a note if a reopened pull request lacks the pushed commit. People can only update it on its page."""
    if head is None or not forge.ignores_pushes_while_closed or forge.pull_contains(pull.number, head):
        return []
    return [
        f"Pull request {pull.number} was reopened, but shows only the commits that it had when it was closed. Close "
        "and reopen it on its page to see all of them."
    ]


def _update_text(forge: Forge, pull: PullRequest, proposal: Proposal) -> None:
    """Replaces our part of the body, and the title unless a person has changed it."""
    title = proposal.title if is_our_title(pull.title, pull.body) else pull.title
    body = replace_marked_part(
        pull.body, wrap_in_markers(proposal.title if title == proposal.title else "", proposal.body)
    )
    if (title, body) != (pull.title, pull.body):
        forge.update_pull(pull, title=title if title != pull.title else None, body=body)


def _close_duplicates(forge: Forge, proposal: Proposal, current: PullRequest) -> PullRequest:
    """Closes all open pull requests of the branch except the oldest, and returns that one.

    A worker that was paused between looking and opening may have opened a second one.
    """
    open_pulls = [pull for pull in forge.find_pulls(proposal.branch, proposal.base) if pull.state == "open"]
    oldest = min([current, *open_pulls], key=lambda pull: pull.number)
    for pull in open_pulls:
        if pull.number != oldest.number:
            forge.close_pull(pull.number)
            with suppress(JobFailed):
                forge.add_comment(
                    pull.number, f"Closed as a duplicate: {oldest.url} is the pull request of this branch."
                )
    return next((pull for pull in open_pulls if pull.number == oldest.number), current)
