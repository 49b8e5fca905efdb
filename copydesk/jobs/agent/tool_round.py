"""One round of tool use as the journal keeps it: what the tools answered, and just the bytes that changed."""

from pydantic import Base64Bytes, BaseModel, ConfigDict

from copydesk.jobs.agent.conversation import ToolResult
from copydesk.jobs.agent.tools import Finished
from copydesk.jobs.workspace.patches import common_prefix_length
from copydesk.jobs.workspace.workspace import Changes, Workspace, short_hash


class Splice(BaseModel):
    """A file's change: `drop` bytes from `start` on give way to `insert`. `result` is the digest that must come out."""

    model_config = ConfigDict(frozen=True)

    path: str
    start: int
    drop: int
    insert: Base64Bytes
    result: str | None

    @classmethod
    def between(cls, path: str, old: bytes | None, new: bytes | None) -> "Splice":
        before, after = old or b"", new or b""
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
            raise ValueError(f"{self.path} is not what the journal says it was")
        return new


class ToolRound(BaseModel):
    """What a round of tool calls came to."""

    results: tuple[ToolResult, ...]
    splices: tuple[Splice, ...]
    finished: Finished | None
    sent_back: Finished | None = None
    """The model called finish, and was answered with findings."""

    def with_review_findings(self, findings: str) -> "ToolRound":
        """The model is not finished yet: what was found is the answer to its call."""
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
        """Brings a workspace that was at the round's start to its end."""
        contents = {path: _read_if_exists(workspace, path) for path in (splice.path for splice in self.splices)}
        workspace.apply({splice.path: splice.apply(contents[splice.path]) for splice in self.splices})


def build_splices(before: Changes, workspace: Workspace) -> tuple[Splice, ...]:
    """What changed since the workspace's changes were `before`."""
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
