"""The plan for an instruction: tool calls, edits of whole lines, and the pages that a scope selects."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from copydesk.jobs.agent.mechanic.instructions import InstructionScope
from copydesk.jobs.pages.lines import apply_edits, line_at, split_lines
from copydesk.jobs.pages.page_types import is_page, strip_extension
from copydesk.jobs.pages.site.repository_index import list_pages
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable, Replacement, apply_replacements
from copydesk.jobs.workspace.workspace import Workspace, short_hash

MAX_FILES = 100
MAX_REPLACEMENTS_PER_CALL = 2000
MAX_CHANGED_LINES = 20_000
"""Limits the changed lines of one file. They are sent in chunks, and each chunk reads the whole file again."""
Edits = list[tuple[int, int, str]]


REFORMAT_REASON = "The request asks for exactly these changes."
"""The reason for edits that change only the form of lines. The mechanic makes them only on request."""


@dataclass
class EditPlan:
    """The work of one instruction. `calls` are pairs of tool name and arguments; `notes` are for the reviewer."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    file_count: int = 0

    @property
    def is_full(self) -> bool:
        return self.file_count >= MAX_FILES

    def add_edits(self, path: str, data: bytes, edits: Edits) -> bool:
        """Plans these edits of the file's body. Returns False and adds a note when they cannot be made."""
        text = DecodedText.decode(data)
        new_body = apply_edits(text.body, edits)
        try:
            text.encode(new_body)
        except NotEditable as error:
            self.notes.append(f"{path} was not changed: {error}")
            return False
        if not text.body:  # there is nothing to replace
            self.calls.append(("write", {"path": path, "hash": short_hash(data), "content": new_body}))
            self.file_count += 1
            return True
        replacements = to_line_replacements(text.body, edits)
        if len(replacements) > MAX_CHANGED_LINES:
            self.notes.append(f"{path} was not changed: more than {MAX_CHANGED_LINES:,} of its lines would change.")
            return False
        while replacements:
            chunk = replacements[:MAX_REPLACEMENTS_PER_CALL]
            replacements = replacements[MAX_REPLACEMENTS_PER_CALL:]
            arguments = {"path": path, "hash": short_hash(data), "replacements": chunk, "reformat": REFORMAT_REASON}
            self.calls.append(("edit", arguments))
            if replacements:
                data = apply_replacements(data, [Replacement(**replacement) for replacement in chunk])
        self.file_count += 1
        return True

    def note_limit_reached(self) -> None:
        note = f"More than {MAX_FILES} files match, which is the limit for one instruction. Ask again for the rest."
        if note not in self.notes:
            self.notes.append(note)


def select_lines(body: str, edits: Edits, scope: InstructionScope) -> Edits:
    """Returns the edits on the lines of the scope; all of them if it names no lines."""
    if scope.lines is None or not edits:
        return edits
    lines = split_lines(body)
    first, last = scope.lines
    if first > len(lines):
        return []
    start = lines[first - 1].start
    end = lines[min(last, len(lines)) - 1].end
    return [edit for edit in edits if edit[0] >= start and edit[1] <= end]


def to_line_replacements(body: str, edits: Edits) -> list[dict[str, Any]]:
    """Converts edits to replacements of whole lines, which are never ambiguous."""
    lines = split_lines(body)
    groups: list[tuple[int, int, Edits]] = []
    for start, end, new in sorted(edits):
        if body[start:end] == new or not lines:
            continue
        first = line_at(lines, start).number
        last = line_at(lines, max(start, end - 1)).number
        while last < len(lines) and not body[lines[first - 1].start : lines[last - 1].end]:
            last += 1  # an empty text cannot be replaced, so the next line is included
        if groups and first <= groups[-1][1]:
            first, previous_last, group_edits = groups.pop()
            group_edits.append((start, end, new))
            groups.append((first, max(last, previous_last), group_edits))
        else:
            groups.append((first, last, [(start, end, new)]))
    replacements = []
    for first, last, group_edits in groups:
        block_start = lines[first - 1].start
        block_end = max(lines[last - 1].end, group_edits[-1][1])
        new_block = apply_edits(
            body[block_start:block_end],
            [(start - block_start, end - block_start, new) for start, end, new in group_edits],
        )
        replacements.append(
            {
                "old": _normalize_newlines(body[block_start:block_end]),
                "new": _normalize_newlines(new_block),
                "line": first,
            }
        )
    return replacements


def _normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n")


def find_pages(workspace: Workspace, scope: InstructionScope, plan: EditPlan) -> list[str]:
    """Returns the pages that the scope selects.

    Returns none and adds a note when a place is missing or ambiguous: to do only a part would be a guess.
    """
    if scope.places and all(is_page(place) and workspace.exists(place) for place in scope.places):
        return sorted(set(scope.places))
    pages = [path for path in list_pages(workspace) if workspace.may_change(path)]
    if not scope.places:
        return [page for page in pages if workspace.is_readable(page)]
    selected: set[str] = set()
    for place in scope.places:
        matches = _match_place(place.strip().strip("/").removeprefix("./"), pages)
        if isinstance(matches, str):
            plan.notes.append(matches)
            return []
        selected.update(matches)
    return sorted(selected)


def _match_place(place: str, pages: list[str]) -> list[str] | str:
    if place in pages:
        return [place]
    pages_below = [page for page in pages if page.startswith(place + "/")]
    if pages_below:
        return pages_below
    candidates = find_page_candidates(pages, place)
    folders = {page[: page.index(f"/{place}/") + len(place) + 1] for page in pages if f"/{place}/" in page}
    if len(candidates) + len(folders) > 1:
        return f"“{place}” could be any of {join_limited(sorted([*candidates, *folders]))}. Nothing was changed."
    if not candidates and not folders:
        return f"There is no page or folder “{place}”. Nothing was changed."
    return candidates or [page for page in pages if page.startswith(next(iter(folders)) + "/")]


class PageFolders:
    """The folders with pages, before the changes of the run: a prompt keeps its meaning while it is carried out."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def find(self, word: str) -> list[str]:
        """Returns the folder that a bare word names at the root of the repository, or else those further down."""
        folders = self._folders_by_name.get(word.casefold(), set())
        return sorted(each for each in folders if "/" not in each) or sorted(folders)

    @cached_property
    def _folders_by_name(self) -> dict[str, set[str]]:
        folders: dict[str, set[str]] = {}
        for path, _ in self._workspace.tree.files():
            if is_page(path) and self._workspace.is_documentation(path):
                names = path.split("/")[:-1]
                for depth, name in enumerate(names, 1):
                    folders.setdefault(name.casefold(), set()).add("/".join(names[:depth]))
        return folders


def find_page_candidates(paths: list[str], name: str) -> list[str]:
    """Returns the files that a person may mean by a path, a part of a path, or a name without extension."""
    if name in paths:
        return [name]
    lowered = name.lower()
    for normalize in (str.lower, lambda path: strip_extension(path).lower()):
        matches = [path for path in paths if normalize(path) == lowered] or [
            p for p in paths if normalize(p).endswith("/" + lowered)
        ]
        if matches:
            return matches
    return []


def join_limited(names: list[str], limit: int = 20) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
