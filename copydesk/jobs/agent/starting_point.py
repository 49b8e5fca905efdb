"""Where a run starts: the commits, the edits that are on no branch yet, and what the model is told of it."""

from collections.abc import Sequence

from pydantic import BaseModel

from copydesk.core.text.truncation import truncate
from copydesk.jobs.agent.tool_round import Splice

MAX_REQUESTS = 20
MAX_REQUEST_CHARS = 1_500
MAX_SUMMARY_CHARS = 4_000


class StartingPoint(BaseModel):
    """The commits that a run starts from, and the edits of earlier runs that are on no branch."""

    base: str
    """The commit of the base branch that the job's change is compared with: the newest that the start contains."""
    head: str | None
    """The tip of the job's branch; None means that there is none."""
    merged: str | None = None
    """The commit that merges the base into the branch; None if the branch contains the base already."""
    merged_at: int = 0
    """The time of that commit, so that it can be created again."""
    carried: tuple[Splice, ...] = ()
    """The edits of earlier runs that were not published, as changes of `start`."""
    has_conflict: bool = False
    """Whether the newest base conflicts with the job's work, so that this run does not see it."""
    begins_anew: bool = False
    """Whether an automation started the run, so that it begins with a new conversation."""
    notes: tuple[str, ...] = ()
    """What people and the model must know of the start, as sentences."""

    @property
    def start(self) -> str:
        return self.merged or self.head or self.base


class Opening(BaseModel):
    """What the model is told before the messages of a follow-up."""

    text: str = ""
    begins_anew: bool = False
    """Whether the conversation of the runs before is left out."""


def render_opening(
    point: StartingPoint, ref: str, earlier_requests: Sequence[str], summary: str | None, carried_paths: Sequence[str]
) -> Opening:
    """Returns what the model is told of the job's earlier runs, and of how the files differ from what it has read."""
    parts = [_render_history(earlier_requests, summary)] if point.begins_anew and earlier_requests else []
    if point.merged is not None:
        parts.append(f"The newest commits of {ref} were merged into the branch before this run.")
    parts += point.notes
    if point.has_conflict:
        parts.append(f"The newest commits of {ref} conflict with this branch, so they are not part of the files.")
    if carried_paths and point.begins_anew:
        parts.append(f"Edits of earlier runs that are not published yet are part of {', '.join(carried_paths[:20])}.")
    if parts and not point.begins_anew:
        parts.append("Read a file again before you edit it.")
    return Opening(text="\n\n".join(parts), begins_anew=point.begins_anew)


def _render_history(requests: Sequence[str], summary: str | None) -> str:
    first = max(0, len(requests) - MAX_REQUESTS)
    lines = ["This job has done earlier requests. They are context, not work to do again:"]
    for number, text in enumerate(requests[first:], first + 1):
        same = requests.index(text, first) + 1
        words = truncate(text, MAX_REQUEST_CHARS) if same == number else f"the same as request {same}"
        lines.append(f"Request {number}: {words}")
    if summary:
        lines.append(f"What was done: {truncate(summary, MAX_SUMMARY_CHARS)}")
    return "\n\n".join(lines)
