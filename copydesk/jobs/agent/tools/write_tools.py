"""Tools that change: edit, write, move, delete. Each does all of what it was asked, or nothing."""

from pydantic import Field

from copydesk.jobs.agent.tools.tool import Arguments, Tool, ToolRefused, existing
from copydesk.jobs.pages.move_page import move_page
from copydesk.jobs.workspace import edit_scope as scope
from copydesk.jobs.workspace import text_edits as text
from copydesk.jobs.workspace.workspace import Workspace, digest


class Replacement(Arguments):
    old: str
    """The exact text to replace, as read shows it, without the line numbers."""
    new: str
    line: int | None = Field(None, ge=1)
    """The line where `old` begins; needed only where it occurs more than once."""
    everywhere: bool = False
    """Replace every occurrence."""


class Edit(Arguments):
    path: str
    hash: str
    """The file's hash as read gave it, so that nothing is edited unseen."""
    replacements: list[Replacement] = Field(min_length=1, max_length=2000)


def edit(workspace: Workspace, asked: Edit) -> str:
    """Replaces exact pieces of text in one file: all of them, or none when one is missing or ambiguous."""
    data = _seen(workspace, asked.path, asked.hash)
    wanted = [text.Replacement(r.old, r.new, r.line, r.everywhere) for r in asked.replacements]
    new = text.replace(data, wanted)
    if new == data:
        raise ToolRefused("The replacements leave the file as it is.")
    # Each replacement by itself: one that names a line is meant, also where it only trims it.
    for one in asked.replacements:
        _refuse(scope.reformats(one.old, one.new))
    if any(scope.is_long(one.old) for one in asked.replacements):
        _refuse(scope.rewrites(data, new))
    workspace.write(asked.path, new)
    return f"Edited {asked.path}; its hash is now {digest(new)}."


class Write(Arguments):
    path: str
    content: str
    hash: str | None = None
    """Needed to replace an existing file: its hash as read gave it."""
    whole: bool = False
    """Set it only when the task is to write an existing page anew, such as to translate it."""


def write(workspace: Workspace, asked: Write) -> str:
    """Makes a new file, or replaces an existing one as a whole; prefer edit for existing files."""
    data = None
    if workspace.exists(asked.path):
        if asked.hash is None:
            raise ToolRefused(f"{asked.path} exists; use edit, or read it and give its hash.")
        data = _seen(workspace, asked.path, asked.hash)
    new = text.written(data, asked.content)
    _refuse(None if data is None else scope.overreach(data, new, whole=asked.whole))
    workspace.write(asked.path, new)
    return f"Wrote {asked.path}; its hash is now {digest(new)}."


class Move(Arguments):
    path: str
    to: str


def move(workspace: Workspace, asked: Move) -> str:
    """Renames or moves a file, and with it every link and navigation entry that leads to it."""
    existing(workspace, asked.path)
    if workspace.exists(asked.to):
        raise ToolRefused(f"{asked.to} exists already; choose another name, or delete it first.")
    touched = move_page(workspace, asked.path, asked.to)
    also = f" and updated the links in {', '.join(touched)}" if touched else "; nothing linked to it"
    return f"Moved {asked.path} to {asked.to}{also}."


class Delete(Arguments):
    path: str


def delete(workspace: Workspace, asked: Delete) -> str:
    """Deletes a file. Links to it are not touched: search for them first."""
    existing(workspace, asked.path)
    workspace.delete(asked.path)
    return f"Deleted {asked.path}."


def _refuse(refusal: str | None) -> None:
    if refusal:
        raise ToolRefused(refusal)


def _seen(workspace: Workspace, path: str, seen: str) -> bytes:
    data = existing(workspace, path)
    if digest(data) != seen:
        raise ToolRefused(f"{path} is not what you read (its hash is another); read it again.")
    return data


CHANGING = (
    Tool.of("edit", Edit, edit),
    Tool.of("write", Write, write),
    Tool.of("move", Move, move),
    Tool.of("delete", Delete, delete),
)
