"""Prepares the change of a job for a page: adds the unchanged lines between hunks, and cuts long diffs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import pygit2
from fastapi import Response

from copydesk.desk import Desk
from copydesk.jobs.service import ChangedFile
from copydesk.jobs.workspace.git_repository import open_repository
from copydesk.web.dashboard.jobs.diff_parser import Gap, Hunk, Patch, parse_patch
from copydesk.web.dashboard.jobs.page_preview import PagePreview, PreviewBuilder
from copydesk.web.responses.html import PAGE_HEADERS

MAX_DIFF_LINES = 400
MAX_DIFF_BYTES = 200_000
MAX_FOLDED_LINES = 400
MAX_OLD_FILE_BYTES = 1_000_000

DiffLayout = Literal["unified", "split", "rendered", "raw"]


@dataclass(frozen=True)
class FileChangeView:
    file: ChangedFile
    blocks: list[Hunk | Gap]
    is_binary: bool
    cut: bool
    preview: PagePreview | None = None
    """The rendered page before and after; None if it was not requested or the file is not a page."""


@dataclass(frozen=True)
class ChangeView:
    files: list[FileChangeView]

    @property
    def additions(self) -> int:
        return sum(change.file.additions for change in self.files)

    @property
    def deletions(self) -> int:
        return sum(change.file.deletions for change in self.files)

    @property
    def is_cut(self) -> bool:
        return any(change.cut for change in self.files)


def load_change_view(desk: Desk, project_id: str, job_id: str, layout: DiffLayout = "unified") -> ChangeView:
    """Returns the change of a job. The layout `rendered` adds the pages before and after."""
    previews = PreviewBuilder() if layout == "rendered" else None
    with _open_mirror(desk, project_id) as mirror:
        return ChangeView(_build_file_changes(desk.jobs.patches(project_id, job_id), mirror, previews))


def _build_file_changes(
    patches: Iterable[tuple[ChangedFile, bytes]], mirror: pygit2.Repository | None, previews: PreviewBuilder | None
) -> list[FileChangeView]:
    lines_left = MAX_DIFF_LINES
    bytes_left = MAX_DIFF_BYTES
    folded_left = MAX_FOLDED_LINES
    files = []
    for file, data in patches:
        patch = parse_patch(_truncate_to_lines(data, bytes_left).decode("utf-8", "replace"))
        visible_patch = _limit_lines(patch, lines_left)
        is_cut = len(data) > bytes_left or visible_patch is not patch
        blocks = _limit_folded_lines(
            visible_patch.build_blocks(None if is_cut else _read_old_text(mirror, patch)), folded_left
        )
        preview = _build_preview(previews, file, data, mirror) if previews is not None else None
        files.append(FileChangeView(file, blocks, patch.is_binary, is_cut, preview))
        bytes_left = max(bytes_left - len(data), 0)
        lines_left -= sum(len(block.lines) for block in blocks if isinstance(block, Hunk))
        folded_left -= sum(len(block.lines) for block in blocks if isinstance(block, Gap))
    return files


def _build_preview(
    previews: PreviewBuilder, file: ChangedFile, data: bytes, mirror: pygit2.Repository | None
) -> PagePreview | None:
    """Returns the preview of a file, also of one whose diff is cut because others take up the space."""
    if len(data) > MAX_DIFF_BYTES:
        return previews.refuse(file)
    patch = parse_patch(data.decode("utf-8", "replace"))
    return previews.build(file, patch, _read_old_text(mirror, patch))


def raw_diff_response(diff: bytes) -> Response:
    return Response(diff, media_type="text/plain", headers=PAGE_HEADERS)


def _truncate_to_lines(data: bytes, max_bytes: int) -> bytes:
    """Returns the whole lines that fit into this many bytes."""
    return data if len(data) <= max_bytes else data[: data.rfind(b"\n", 0, max_bytes) + 1]


def _limit_lines(patch: Patch, lines_left: int) -> Patch:
    if sum(len(hunk.lines) for hunk in patch.hunks) <= lines_left:
        return patch
    hunks = []
    for hunk in patch.hunks:
        if lines_left > 0:
            hunks.append(replace(hunk, lines=hunk.lines[:lines_left]))
        lines_left -= len(hunk.lines)
    return replace(patch, hunks=tuple(hunks))


def _limit_folded_lines(blocks: list[Hunk | Gap], lines_left: int) -> list[Hunk | Gap]:
    """Drops the lines of gaps beyond the limit. The page then shows only how many lines the gap has."""
    limited: list[Hunk | Gap] = []
    for block in blocks:
        if isinstance(block, Gap) and len(block.lines) > lines_left:
            block = replace(block, lines=())
        lines_left -= len(block.lines) if isinstance(block, Gap) else 0
        limited.append(block)
    return limited


@contextmanager
def _open_mirror(desk: Desk, project_id: str) -> Iterator[pygit2.Repository | None]:
    """Yields the project's mirror on this machine, or None.

    Fetches nothing: without the mirror, the page only cannot show the unchanged lines."""
    try:
        mirror = open_repository(desk.settings.mirrors_folder / f"{project_id}.git")
    except pygit2.GitError:
        yield None
        return
    try:
        yield mirror
    finally:
        mirror.free()


def _read_old_text(mirror: pygit2.Repository | None, patch: Patch) -> str | None:
    if mirror is None or patch.old_blob is None:
        return None
    try:
        blob = mirror[patch.old_blob]
    except (KeyError, ValueError):  # unknown here, or the prefix is ambiguous
        return None
    if not isinstance(blob, pygit2.Blob) or blob.size > MAX_OLD_FILE_BYTES:
        return None
    return blob.data.decode("utf-8", "replace")
