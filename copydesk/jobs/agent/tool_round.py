"""One round of tool calls as the journal stores it: the results, and only the bytes that changed."""

from pydantic import Base64Bytes, BaseModel, ConfigDict

from copydesk.jobs.agent.conversation import ToolResult
from copydesk.jobs.agent.tools import Finished, Question
from copydesk.jobs.workspace.patches import common_prefix_length
from copydesk.jobs.workspace.workspace import Changes, Workspace, short_hash


class Splice(BaseModel):
    """A change of one file: replaces `drop` bytes from `start` on with `insert`.

    `result` is the hash that the new content must have; None means that the file is deleted.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    start: int
    drop: int
    insert: Base64Bytes
    result: str | None

    @classmethod
    def between(cls, path: str, old: bytes | None, new: bytes | None) -> "Splice":
        before = old or b""
        after = new or b""
        start = common_prefix_length(before, after)
        suffix_length = common_prefix_length(before[start:][::-1], after[start:][::-1])
        return cls.model_construct(
            path=path,
            start=start,
            drop=len(before) - start - suffix_length,
            insert=after[start : len(after) - suffix_length],
            result=None if new is None else short_hash(new),
        )

    def apply(self, old: bytes | None) -> bytes | None:
        if self.result is None:
            return None
        before = old or b""
        new = before[: self.start] + self.insert + before[self.start + self.drop :]
        if short_hash(new) != self.result:
            raise ValueError(f"{self.path} does not match its hash in the journal")
        return new


class ToolRound(BaseModel):
    """The results and changes of one round of tool calls."""

    results: tuple[ToolResult, ...]
    splices: tuple[Splice, ...]
    finished: Finished | None
    sent_back: Finished | None = None
    """The finish call that the review answered with findings."""
    question: Question | None = None
    """The question that ends the run."""

    def with_review_findings(self, findings: str) -> "ToolRound":
        """Returns the round as unfinished, with the findings as the result of the finish call."""
        return self.model_copy(
            update={
                "finished": None,
                "sent_back": self.finished,
                "results": tuple(
                    result.model_copy(update={"ok": False, "text": findings})
                    if result.name == "finish" and result.ok
                    else result
                    for result in self.results
                ),
            }
        )

    def replay(self, workspace: Workspace) -> None:
        """Applies the round's changes to a workspace that is in the state before the round."""
        contents = {path: _read_if_exists(workspace, path) for path in (splice.path for splice in self.splices)}
        workspace.apply({splice.path: splice.apply(contents[splice.path]) for splice in self.splices})


def build_splices(before: Changes, workspace: Workspace) -> tuple[Splice, ...]:
    """Returns the differences between the changes `before` and the workspace's current changes."""
    after = workspace.changes()
    splices = []
    for path in sorted(before.keys() | after.keys()):
        old = before[path] if path in before else workspace.read_original(path)
        new = after[path] if path in after else workspace.read_original(path)
        if old != new:
            splices.append(Splice.between(path, old, new))
    return tuple(splices)


def _read_if_exists(workspace: Workspace, path: str) -> bytes | None:
    return workspace.read(path) if workspace.exists(path) else None
