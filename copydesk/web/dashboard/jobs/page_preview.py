"""The rendered page before and after a change, with the blocks marked that differ."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from copydesk.jobs.service import ChangedFile
from copydesk.web.dashboard.jobs.diff_parser import Gap, Hunk, Patch
from copydesk.web.dashboard.jobs.page_renderer import (
    MAX_PAGE_CHARS,
    RenderedBlock,
    RenderingTooSlow,
    can_render,
    render_page_blocks,
)

MAX_PREVIEW_SECONDS = 3.0
MAX_PREVIEW_CHARS = 400_000
TOO_LONG = "This page is too long to render. See the diff below."


@dataclass(frozen=True)
class PagePreview:
    """A page before and after a change. None means that the page does not exist then, or that `note` says why."""

    before: Sequence[RenderedBlock] | None = None
    after: Sequence[RenderedBlock] | None = None
    note: str = ""


class PreviewBuilder:
    """Builds the previews of one change, all of them within one limit of time and size."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + MAX_PREVIEW_SECONDS
        self._chars_left = MAX_PREVIEW_CHARS

    def refuse(self, file: ChangedFile) -> PagePreview | None:
        """Returns the preview of a file whose diff is too long to be read, or None if it is not a page."""
        return PagePreview(note=TOO_LONG) if can_render(file.path) else None

    def build(self, file: ChangedFile, patch: Patch, old_text: str | None) -> PagePreview | None:
        """Returns the preview of a file, or None if it is not a page. `old_text` is None if the text is unknown."""
        if not can_render(file.path) or patch.is_binary:
            return None
        if file.previous and not patch.hunks:
            return PagePreview(note="Only the name changed.")
        blocks = patch.build_blocks(None if file.change == "added" else old_text)
        before = None if file.change == "added" else _join_lines(blocks, "-")
        after = None if file.change == "deleted" else _join_lines(blocks, "+")
        if before is not None and after is not None and before != (old_text or "").removesuffix("\n"):
            return PagePreview(note="This server does not have the whole page, or it is too long. See the diff below.")
        try:
            old_blocks = self._render(file.previous or file.path, before)
            new_blocks = self._render(file.path, after)
        except (RenderingTooSlow, RecursionError):
            return PagePreview(note=TOO_LONG)
        return PagePreview(_mark_changed(old_blocks, new_blocks), _mark_changed(new_blocks, old_blocks))

    def _render(self, path: str, text: str | None) -> list[RenderedBlock] | None:
        if text is None:
            return None
        if len(text) > MAX_PAGE_CHARS:
            raise RenderingTooSlow
        blocks = render_page_blocks(path, text, self._deadline)
        self._chars_left -= sum(len(block.html) for block in blocks)
        if self._chars_left < 0:
            raise RenderingTooSlow
        return blocks


def _join_lines(blocks: Sequence[Hunk | Gap], own_sign: str) -> str:
    """Returns one side of a diff. `own_sign` is `-` for the text before and `+` for the text after."""
    return "\n".join(line.text for block in blocks for line in block.lines if line.sign in ("", " ", own_sign))


def _mark_changed(blocks: list[RenderedBlock] | None, others: list[RenderedBlock] | None) -> list[RenderedBlock] | None:
    """Marks the blocks that the other side does not have. A page without another side has no marks."""
    if blocks is None or others is None:
        return blocks
    left = Counter(block.html for block in others)
    marked = []
    for block in blocks:
        left[block.html] -= 1
        marked.append(replace(block, is_changed=left[block.html] < 0))
    return marked
