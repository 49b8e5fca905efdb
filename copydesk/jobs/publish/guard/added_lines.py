"""The lines that a change adds: those that none of the changed files had before."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Changes


@dataclass(frozen=True)
class ProposedFile:
    """A file after the change.

    `before` contains all changed files before the change, so that lines of a moved page do not count as added.
    """

    path: str
    data: bytes
    before: "FilesBefore"

    @cached_property
    def body(self) -> str:
        return DecodedText.decode(self.data).normalized_body if is_text(self.data) else ""

    def added_lines(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(self.body.split("\n"), 1):
            if line not in self.before.lines:
                yield number, line


@dataclass(frozen=True)
class FilesBefore:
    """The changed files before the change, as pairs of path and content."""

    files: tuple[tuple[str, bytes], ...] = ()

    @cached_property
    def data(self) -> bytes:
        return b"\x00".join(data for _, data in self.files)

    @cached_property
    def bodies(self) -> tuple[tuple[str, str], ...]:
        """The path and text of each text file."""
        return tuple((path, DecodedText.decode(data).normalized_body) for path, data in self.files if is_text(data))

    @cached_property
    def body(self) -> str:
        return "\n".join(body for _, body in self.bodies)

    @cached_property
    def lines(self) -> frozenset[str]:
        return frozenset(self.body.split("\n"))


def list_proposed_files(tree: Tree, changes: Changes) -> list[ProposedFile]:
    entries = [(path, tree.find_entry(path)) for path in sorted(changes)]
    before = FilesBefore(
        tuple((path, tree.read(entry)) for path, entry in entries if entry is not None and entry.is_file)
    )
    return [ProposedFile(path, data, before) for path, data in sorted(changes.items()) if data is not None]
