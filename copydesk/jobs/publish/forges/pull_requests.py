"""Finds or opens the one pull request of a job's branch, however often it runs and whatever dies on the way."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from copydesk.jobs.job import JobFailed
from copydesk.jobs.publish.errors import AlreadyOpen, ForgeRefused, NotYet
from copydesk.jobs.publish.forges.forge import Forge, Proposal, PullRequest
from copydesk.jobs.publish.forges.markers import is_our_title, marked, merged_text, short_title
from copydesk.jobs.publish.retry import Pause, patiently

CATCHES_UP_WITHIN = 45.0
LOOKS_AGAIN_AFTER = 2.0


@dataclass(frozen=True)
class Published:
    pull: PullRequest
    notes: Sequence[str]
    """What a person should know: a label that does not exist, somebody who cannot be asked to review."""


def publish_pull(
    forge: Forge,
    proposal: Proposal,
    *,
    known: int | None,
    asked_at: int,
    guard: Callable[[], None],
    pause: Pause,
    deadline: float,
) -> Published:
    """`known` is the job's pull request, if it has one; `asked_at` (milliseconds) is when this run was asked for.

    `guard` is called right before each change and raises when the job is no longer ours. Each try begins with a look:
    a try that died or got no clear answer may have opened the pull request.
    """
    proposal = replace(proposal, title=short_title(proposal.title))
    until = min(deadline, time.monotonic() + CATCHES_UP_WITHIN)
    while True:
        try:
            return patiently(lambda: _publish(forge, proposal, known, asked_at, guard), pause, deadline)
        except NotYet as refusal:
            why = str(refusal)
            if time.monotonic() + LOOKS_AGAIN_AFTER > until:
                raise
        pause(LOOKS_AGAIN_AFTER, why)


def _publish(
    forge: Forge, proposal: Proposal, known: int | None, asked_at: int, guard: Callable[[], None]
) -> Published:
    found = forge.find(proposal.branch, proposal.base)
    if known is not None and all(pull.number != known for pull in found):
        found.append(_recorded(forge, known))
    ours = _ours(found, known)
    notes: list[str] = []
    if ours is None:
        guard()
        ours = _open(forge, proposal)
        if proposal.draft and not ours.draft:
            notes.append("This repository has no drafts: the pull request was opened as ready for review.")
    elif ours.state == "merged" and proposal.head is not None and ours.head == proposal.head:
        return Published(ours, notes)  # a person was quicker than our record of it
    else:
        _refuse_ended(ours, asked_at)
        guard()
        if ours.state == "closed":
            _reopen(forge, ours)
        _rewrite(forge, ours, proposal)
    if known is None:
        guard()
        notes += _noted(forge.add_labels, ours.number, proposal.labels)
        notes += _noted(forge.ask_reviewers, ours.number, proposal.reviewers)
        ours = _only_one(forge, proposal, ours)
    return Published(ours, notes)


def _recorded(forge: Forge, number: int) -> PullRequest:
    try:
        return forge.get(number)
    except ForgeRefused as refusal:
        if refusal.status != 404:
            raise
        raise ForgeRefused(f"Pull request {number}, which is this job's, no longer exists.", status=404) from None


def _noted(act: Callable[[int, Sequence[str]], list[str]], number: int, names: Sequence[str]) -> list[str]:
    """The pull request is there: what cannot be added to it is said, and is no failure."""
    try:
        return act(number, names)
    except ForgeRefused as refusal:
        return [f"{', '.join(names)} could not be added: {refusal}"]


def _ours(found: Sequence[PullRequest], known: int | None) -> PullRequest | None:
    """The one on record; else the oldest open one; else the newest: a job has one pull request in its life."""
    named = [pull for pull in found if pull.number == known]
    is_open = [pull for pull in found if pull.state == "open"]
    return next(iter([*named, *is_open, *reversed(found)]), None)


def _refuse_ended(pull: PullRequest, asked_at: int) -> None:
    if pull.state == "merged":
        raise ForgeRefused(
            f"Pull request {pull.number} was merged meanwhile, so it takes no more changes. They are on the branch "
            f"{pull.branch}; start a new job for what is still missing."
        )
    if pull.state == "closed" and not pull.ended_before(asked_at):
        raise ForgeRefused(
            f"Pull request {pull.number} was closed while the agent worked, so it was left closed. The changes are on "
            f"the branch {pull.branch}; send another message to open it again."
        )


def _open(forge: Forge, proposal: Proposal) -> PullRequest:
    try:
        return forge.open(replace(proposal, body=marked(proposal.title, proposal.body)))
    except AlreadyOpen as refusal:
        for pull in forge.find(proposal.branch, proposal.base):
            if pull.state == "open":
                return pull
        raise NotYet(str(refusal), status=refusal.status) from None  # it is there, but not in the listing so far


def _reopen(forge: Forge, pull: PullRequest) -> None:
    """GitLab says yes to what it does not do, so there is a look after."""
    why = f"{forge.repository} leaves it closed"
    try:
        forge.reopen(pull.number)
        if forge.get(pull.number).state == "open":
            return
    except ForgeRefused as refusal:
        why = str(refusal)
    raise ForgeRefused(f"Pull request {pull.number} was closed and cannot be opened again: {why}")


def _rewrite(forge: Forge, pull: PullRequest, proposal: Proposal) -> None:
    """Our part of the text is replaced. The title only while it is the one that we wrote."""
    title = proposal.title if is_our_title(pull.title, pull.body) else pull.title
    body = merged_text(pull.body, marked(proposal.title if title == proposal.title else "", proposal.body))
    if (title, body) != (pull.title, pull.body):
        forge.update(pull, title=title if title != pull.title else None, body=body)


def _only_one(forge: Forge, proposal: Proposal, ours: PullRequest) -> PullRequest:
    """A worker that was paused between look-up and opening may have made a second one: the younger is closed."""
    is_open = [pull for pull in forge.find(proposal.branch, proposal.base) if pull.state == "open"]
    oldest = min([ours, *is_open], key=lambda pull: pull.number)
    for pull in is_open:
        if pull.number != oldest.number:
            forge.close(pull.number)
            with suppress(JobFailed):
                forge.comment(pull.number, f"Closed: {oldest.url} is the pull request of this branch.")
    return next((pull for pull in is_open if pull.number == oldest.number), ours)
