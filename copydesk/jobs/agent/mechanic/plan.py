"""What a plan is made of: tool calls, whole lines to edit, and the pages that a scope means."""

from dataclasses import dataclass, field
from typing import Any

from copydesk.jobs.agent.mechanic.instructions import Scope
from copydesk.jobs.pages.lines import line_at, lines_of, spliced
from copydesk.jobs.pages.page_types import is_page, without_extension
from copydesk.jobs.workspace.text_edits import NotEditable, Replacement, Text, replace
from copydesk.jobs.workspace.workspace import Workspace, digest

MOST_FILES = 100
MOST_REPLACEMENTS = 2000
MAX_CHANGED_LINES = 20_000
"""Limits the lines of one file. They are sent in parts, and each part reads the whole file again."""
Edits = list[tuple[int, int, str]]


@dataclass
class Plan:
    """`calls` are pairs of a tool's name and its arguments; `notes` are sentences for the reviewer."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0

    @property
    def is_full(self) -> bool:
        return self.files >= MOST_FILES

    def edit(self, path: str, data: bytes, edits: Edits) -> bool:
        """Plans these edits of the file's body; False, with a note, where they cannot be made."""
        text = Text.of(data)
        try:
            text.encode(spliced(text.body, edits))
        except NotEditable as error:
            self.notes.append(f"{path} was left as it is: {error}")
            return False
        replacements = whole_lines(text.body, edits)
        if len(replacements) > MAX_CHANGED_LINES:
            self.notes.append(f"{path} was left as it is: more than {MAX_CHANGED_LINES:,} of its lines would change.")
            return False
        while replacements:
            part, replacements = replacements[:MOST_REPLACEMENTS], replacements[MOST_REPLACEMENTS:]
            self.calls.append(("edit", {"path": path, "hash": digest(data), "replacements": part}))
            if replacements:
                data = replace(data, [Replacement(**one) for one in part])
        self.files += 1
        return True

    def note_rest(self) -> None:
        self.notes.append(f"More than {MOST_FILES} files match, which is the most for one job; ask again for the rest.")


def whole_lines(body: str, edits: Edits) -> list[dict[str, Any]]:
    """The edits as replacements of whole lines, which are never ambiguous."""
    lines = lines_of(body)
    groups: list[tuple[int, int, Edits]] = []
    for start, end, new in sorted(edits):
        if body[start:end] == new or not lines:
            continue
        first, last = line_at(lines, start).number, line_at(lines, max(start, end - 1)).number
        while last < len(lines) and not body[lines[first - 1].start : lines[last - 1].end]:
            last += 1  # an empty line cannot be named, so its neighbour comes along
        if groups and first <= groups[-1][1]:
            first, before, inside = groups.pop()
            inside.append((start, end, new))
            groups.append((first, max(last, before), inside))
        else:
            groups.append((first, last, [(start, end, new)]))
    found = []
    for first, last, inside in groups:
        begin, finish = lines[first - 1].start, max(lines[last - 1].end, inside[-1][1])
        changed = spliced(body[begin:finish], [(start - begin, end - begin, new) for start, end, new in inside])
        found.append({"old": _shown(body[begin:finish]), "new": _shown(changed), "line": first})
    return found


def _shown(text: str) -> str:
    return text.replace("\r\n", "\n")


def pages_in(workspace: Workspace, scope: Scope, plan: Plan) -> list[str]:
    """The pages meant. A place that is missing or ambiguous empties the list: half of what was asked is a guess."""
    if scope.places and all(is_page(place) and workspace.exists(place) for place in scope.places):
        return sorted(set(scope.places))
    pages = [path for path in workspace.paths() if is_page(path) and workspace.is_documentation(path)]
    if not scope.places:
        return [page for page in pages if workspace.is_readable(page)]
    chosen: set[str] = set()
    for place in scope.places:
        found = _named(place.strip().strip("/").removeprefix("./"), pages)
        if isinstance(found, str):
            plan.notes.append(found)
            return []
        chosen.update(found)
    return sorted(chosen)


def _named(place: str, pages: list[str]) -> list[str] | str:
    if place in pages:
        return [place]
    below = [page for page in pages if page.startswith(place + "/")]
    if below:
        return below
    named = find_page(pages, place)
    folders = {page[: page.index(f"/{place}/") + len(place) + 1] for page in pages if f"/{place}/" in page}
    if len(named) + len(folders) > 1:
        return f"“{place}” could be any of {listed(sorted([*named, *folders]))}; nothing was changed."
    if not named and not folders:
        return f"There is no page or folder “{place}”; nothing was changed."
    return named or [page for page in pages if page.startswith(next(iter(folders)) + "/")]


def find_page(paths: list[str], name: str) -> list[str]:
    """The files that a person may mean by a path, a part of one, or a name without extension."""
    if name in paths:
        return [name]
    lowered = name.lower()
    for key in (str.lower, lambda path: without_extension(path).lower()):
        found = [path for path in paths if key(path) == lowered] or [p for p in paths if key(p).endswith("/" + lowered)]
        if found:
            return found
    return []


def listed(names: list[str], most: int = 20) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def counted(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
