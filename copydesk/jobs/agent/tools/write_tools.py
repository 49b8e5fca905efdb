"""Tools that change one file: edit and write. Each call is carried out completely or not at all."""

from pydantic import Field

from copydesk.jobs.agent.tools.tool import Tool, ToolArguments, ToolRefused, read_existing
from copydesk.jobs.workspace import edit_scope, text_edits
from copydesk.jobs.workspace.patches import create_patch
from copydesk.jobs.workspace.text_edits import DecodedText
from copydesk.jobs.workspace.workspace import Workspace, short_hash

MAX_REASON_CHARS = 500
MAX_DIFF_CHARS = 2000
MAX_DIFF_LINE_CHARS = 300
DIFF_CONTEXT_LINES = 1


class Replacement(ToolArguments):
    old: str
    """The exact text to replace, as read shows it, without the line numbers."""
    new: str
    line: int | None = Field(None, ge=1)
    """The line where `old` begins; needed only where it occurs more than once."""
    everywhere: bool = False
    """Replace every occurrence."""


class Edit(ToolArguments):
    path: str
    hash: str
    """The file's hash as it was last shown, so that nothing is edited unseen."""
    replacements: list[Replacement] = Field(min_length=1, max_length=2000)
    reformat: str = Field("", max_length=MAX_REASON_CHARS)
    """Only if the request asks for other formatting (wrapping, indentation, bullets, quotes): where it asks for it.
    The pull request shows this."""


def edit(workspace: Workspace, arguments: Edit) -> str:
    """Replaces exact pieces of text in one file: all of them, or none when one is missing or ambiguous."""
    data = _read_if_unchanged(workspace, arguments.path, arguments.hash)
    replacements = [text_edits.Replacement(r.old, r.new, r.line, r.everywhere) for r in arguments.replacements]
    new = text_edits.apply_replacements(data, replacements)
    if new == data:
        raise ToolRefused("The replacements do not change the file.")
    refuse_reformatting(workspace, arguments.path, data, new, arguments.reformat)
    if any(edit_scope.is_long(one.old) for one in arguments.replacements):
        _refuse_if(edit_scope.explain_rewrite(data, new))
    workspace.write(arguments.path, new)
    return _describe_write("Edited", arguments.path, data, new)


class Write(ToolArguments):
    path: str
    content: str
    hash: str | None = None
    """Needed to replace an existing file: its hash as read returned it."""
    whole: bool = False
    """Set it only when the task is to rewrite an existing page as a whole, such as to translate it."""
    reformat: str = Field("", max_length=MAX_REASON_CHARS)
    """As for edit."""


def write(workspace: Workspace, arguments: Write) -> str:
    """Creates a new file, or replaces an existing one as a whole; prefer edit for existing files."""
    data = None
    if workspace.exists(arguments.path):
        if arguments.hash is None:
            raise ToolRefused(f"{arguments.path} exists; use edit, or read it and give its hash.")
        data = _read_if_unchanged(workspace, arguments.path, arguments.hash)
    new = text_edits.replace_body(data, arguments.content)
    if data is not None:
        allow_reformatting = bool(arguments.reformat.strip())
        _refuse_if(edit_scope.explain_overreach(data, new, arguments.whole, allow_reformatting))
    workspace.write(arguments.path, new)
    return _describe_write("Wrote", arguments.path, data, new)


def _describe_write(verb: str, path: str, old: bytes | None, new: bytes) -> str:
    """Returns a line for people, and the hash and the diff for the model. A new file is shown without its diff."""
    old_text, new_text = (DecodedText.decode(data).normalized_body.encode() for data in (old or b"", new))
    patch = create_patch(path, old_text, new_text, DIFF_CONTEXT_LINES)
    lines = [f"{verb} {path} (+{patch.additions} −{patch.deletions})", f"New hash: {short_hash(new)}"]
    if old is not None:
        lines += _cut_diff(patch.data.decode("utf-8", "replace"))
    return "\n".join(lines)


def _cut_diff(diff: str) -> list[str]:
    """Returns the lines of a diff without its heading, cut to a bounded length."""
    _, mark, hunks = diff.partition("\n@@")
    shown: list[str] = []
    chars_left = MAX_DIFF_CHARS
    for line in f"{mark}{hunks}".strip("\n").split("\n"):
        text = line if len(line) <= MAX_DIFF_LINE_CHARS else f"{line[:MAX_DIFF_LINE_CHARS]} …"
        chars_left -= len(text) + 1
        if chars_left < 0:
            return [*shown, "… cut: diff shows the rest."]
        shown.append(text)
    return shown


def refuse_reformatting(workspace: Workspace, path: str, data: bytes, new: bytes, reason: str) -> None:
    """Raises ToolRefused if the file as a whole would be reformatted without a reason.

    Compares with the file as it was before the job, so that many small edits count together. A file that was
    reformatted for a reason already is not refused again."""
    original = workspace.read_original(path)
    if not reason.strip() and original is not None and not edit_scope.explain_reformatting(original, data):
        _refuse_if(edit_scope.explain_reformatting(original, new))


def _refuse_if(reason: str | None) -> None:
    if reason:
        raise ToolRefused(reason)


def _read_if_unchanged(workspace: Workspace, path: str, expected_hash: str) -> bytes:
    data = read_existing(workspace, path)
    if short_hash(data) != expected_hash:
        raise ToolRefused(f"{path} is not what you read (its hash is different); read it again.")
    return data


WRITE_TOOLS = (Tool.from_function("edit", Edit, edit), Tool.from_function("write", Write, write))
