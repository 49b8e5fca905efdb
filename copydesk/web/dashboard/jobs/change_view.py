"""What a job changed, made ready for a page: with what lies between, and cut where nobody would read on."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import pygit2
from fastapi import Response

from copydesk.desk import Desk
from copydesk.jobs.service import ChangedFile
from copydesk.web.dashboard.jobs.diff_parser import Gap, Hunk, Patch, parsed
from copydesk.web.responses.html import HEADERS

MOST_LINES = 400
MOST_BYTES = 200_000
MOST_FOLDED = 400
LARGEST_FILE = 1_000_000

Look = Literal["unified", "split", "raw"]


@dataclass(frozen=True)
class FileChange:
    file: ChangedFile
    blocks: list[Hunk | Gap]
    is_binary: bool
    cut: bool


@dataclass(frozen=True)
class Change:
    files: list[FileChange]

    @property
    def additions(self) -> int:
        return sum(change.file.additions for change in self.files)

    @property
    def deletions(self) -> int:
        return sum(change.file.deletions for change in self.files)

    @property
    def is_cut(self) -> bool:
        return any(change.cut for change in self.files)


def change_of(desk: Desk, project_id: str, job_id: str) -> Change:
    with _mirror(desk, project_id) as mirror:
        return Change(_file_changes(desk.jobs.patches(project_id, job_id), mirror))


def _file_changes(patches: Iterable[tuple[ChangedFile, bytes]], mirror: pygit2.Repository | None) -> list[FileChange]:
    lines, size, folded = MOST_LINES, MOST_BYTES, MOST_FOLDED
    files = []
    for file, data in patches:
        patch = parsed(_beginning(data, size).decode("utf-8", "replace"))
        shown = _cut(patch, lines)
        is_cut = len(data) > size or shown is not patch
        blocks = _folded(shown.blocks(None if is_cut else _old_text(mirror, patch)), folded)
        files.append(FileChange(file, blocks, patch.is_binary, is_cut))
        size = max(size - len(data), 0)
        lines -= sum(len(block.lines) for block in blocks if isinstance(block, Hunk))
        folded -= sum(len(block.lines) for block in blocks if isinstance(block, Gap))
    return files


def raw(diff: bytes) -> Response:
    return Response(diff, media_type="text/plain", headers=HEADERS)


def _beginning(data: bytes, most: int) -> bytes:
    """No more than so many bytes, in whole lines."""
    return data if len(data) <= most else data[: data.rfind(b"\n", 0, most) + 1]


def _cut(patch: Patch, most: int) -> Patch:
    if sum(len(hunk.lines) for hunk in patch.hunks) <= most:
        return patch
    hunks = []
    for hunk in patch.hunks:
        if most > 0:
            hunks.append(replace(hunk, lines=hunk.lines[:most]))
        most -= len(hunk.lines)
    return replace(patch, hunks=tuple(hunks))


def _folded(blocks: list[Hunk | Gap], most: int) -> list[Hunk | Gap]:
    """A page carries only so many lines that may never be looked at; of others it tells the number."""
    kept: list[Hunk | Gap] = []
    for block in blocks:
        if isinstance(block, Gap) and len(block.lines) > most:
            block = replace(block, lines=())
        most -= len(block.lines) if isinstance(block, Gap) else 0
        kept.append(block)
    return kept


@contextmanager
def _mirror(desk: Desk, project_id: str) -> Iterator[pygit2.Repository | None]:
    """As it is on this machine. Nothing is fetched for a page: without it, there is only less to unfold."""
    try:
        mirror = pygit2.Repository(str(desk.settings.mirrors / f"{project_id}.git"))
    except pygit2.GitError:
        yield None
        return
    try:
        yield mirror
    finally:
        mirror.free()


def _old_text(mirror: pygit2.Repository | None, patch: Patch) -> str | None:
    if mirror is None or patch.old_blob is None:
        return None
    try:
        found = mirror[patch.old_blob]
    except (KeyError, ValueError):  # not here, or not the only one that begins so
        return None
    if not isinstance(found, pygit2.Blob) or found.size > LARGEST_FILE:
        return None
    return found.data.decode("utf-8", "replace")
