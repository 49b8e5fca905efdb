"""An edit changes only the intended bytes, for any content of the file; git agrees."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from copydesk.jobs.agent.conversation import ToolCall
from copydesk.jobs.agent.tools import Toolbox
from copydesk.jobs.workspace import text_edits
from copydesk.jobs.workspace.patches import create_patch
from copydesk.jobs.workspace.text_edits import NotEditable, Replacement
from copydesk.jobs.workspace.workspace import short_hash
from tests.jobs.conftest import MakeWorkspace
from tests.support.cpu_budget import limit_cpu

LF, CRLF = "\n", "\r\n"
BOM = b"\xef\xbb\xbf"
# Characters that some libraries treat as line ends, and that are not line ends here.
ODD = (
    "\f",
    "\v",
    "\x1c",
    "\x85",
    "a\rb",
    "\t \t",
    "",
    " ",
    "trailing  ",
    "~~~",
    "+x",
    "-y",
    "@@ -1 +1 @@",
    "\\ No newline",
)
LATIN = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_categories=["Cc"]), max_size=12)
WIDE = st.one_of(LATIN, st.sampled_from(["😀👩‍👩‍👧", "\u2028", "\u2029", "e\u0301", "\ufeff", "漢字", "\U0010ffff"]))


@dataclass(frozen=True)
class EditedFile:
    """A file and a position in it: `before`, the text to replace, and `after`, in stored form."""

    before: str
    old: str
    after: str
    encoding: str
    bom: bytes
    ending: str | None
    """LF or CRLF if all lines end with it; None if they are mixed."""

    @property
    def head(self) -> bytes:
        return self.bom + self.before.encode(self.encoding)

    @property
    def tail(self) -> bytes:
        return self.after.encode(self.encoding)

    @property
    def data(self) -> bytes:
        return self.head + self.old.encode(self.encoding) + self.tail


@st.composite
def files(draw: st.DrawFn) -> EditedFile:
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "latin-1"]))
    ending = draw(st.sampled_from([LF, CRLF, None]))
    content = LATIN if encoding == "latin-1" else WIDE
    long = st.builds(lambda word, times: word * times, content, st.integers(500, 2000))
    line = st.one_of(content, st.sampled_from(ODD), long)

    def lines(most: int) -> str:
        pieces = draw(st.lists(st.tuples(line, st.sampled_from([LF, CRLF])), max_size=most))
        return "".join(words + (ending or own) for words, own in pieces)

    # "«" occurs in no other text and makes `old` unique; "é " as Latin-1 is not valid UTF-8.
    start, inside, end = draw(content), lines(3), draw(content)
    before = (("é " if encoding == "latin-1" else "") + lines(4) + start).replace("«", "<")
    after = (end + (ending or CRLF) + lines(4) if draw(st.booleans()) else end).replace("«", "<")
    old = "«" + (draw(content) + (ending or LF) + inside if draw(st.booleans()) else "").replace("«", "<") + "old"
    bom = BOM if encoding == "utf-8" and draw(st.booleans()) else b""
    return EditedFile(before, old, after, encoding, bom, ending)


def replace_in_file(file: EditedFile, new: str) -> bytes:
    return text_edits.apply_replacements(file.data, [Replacement(normalize_line_endings(file.old), new)])


def normalize_line_endings(body: str) -> str:
    return body.replace(CRLF, LF)


NEW = st.lists(LATIN, min_size=1, max_size=5).map(LF.join)
PLAIN = EditedFile("one\r\n", "«old", "\r\nthree", "utf-8", b"", CRLF)


@pytest.mark.deep
@given(files(), NEW)
@example(PLAIN, "")
@example(PLAIN, "a\nb\n")
def test_edit_changes_only_the_intended_bytes(file: EditedFile, new: str) -> None:
    result = replace_in_file(file, new)
    assert result.startswith(file.head)
    assert result.endswith(file.tail)
    made = result[len(file.head) : len(result) - len(file.tail)].decode(file.encoding)
    assert normalize_line_endings(made) == new
    if file.ending == LF or LF not in new:
        assert made == new
    elif file.ending == CRLF and CRLF in file.before + file.old + file.after:
        assert made == new.replace(LF, CRLF)


@pytest.mark.deep
@given(file=files(), new=NEW)
def test_the_edit_tool_changes_the_same_bytes(workspace: MakeWorkspace, file: EditedFile, new: str) -> None:
    shelf = workspace({"docs/page.md": file.data, "docs/other.md": b"other\r\n"})
    wanted = {"old": normalize_line_endings(file.old), "new": new}
    arguments = {"path": "docs/page.md", "hash": short_hash(file.data), "replacements": [wanted]}
    result = Toolbox(shelf).call(ToolCall(id="1", name="edit", arguments=arguments))
    expected = replace_in_file(file, new)
    assert result.ok == (expected != file.data), result.text
    assert shelf.read("docs/page.md") == expected
    assert shelf.changes() == ({"docs/page.md": expected} if expected != file.data else {})


@pytest.mark.deep
@given(files(), st.sampled_from("aeo «é"), LATIN)
def test_replacing_everywhere_equals_replacing_the_bytes(file: EditedFile, old: str, new: str) -> None:
    asked = [Replacement(old, new, everywhere=True)]
    sought = file.data.removeprefix(file.bom)
    if old.encode(file.encoding) in sought:
        expected = file.bom + sought.replace(old.encode(file.encoding), new.encode(file.encoding))
        assert text_edits.apply_replacements(file.data, asked) == expected
    else:
        with pytest.raises(NotEditable):
            text_edits.apply_replacements(file.data, asked)


@pytest.mark.deep
@given(files())
def test_writing_what_was_read_changes_nothing(file: EditedFile) -> None:
    assert text_edits.replace_body(file.data, text_edits.DecodedText.decode(file.data).normalized_body) == file.data


@pytest.mark.deep
@given(files(), NEW)
def test_the_diff_shows_the_touched_lines_and_no_others(file: EditedFile, new: str) -> None:
    result = replace_in_file(file, new)
    if result == file.data:
        return
    patch = create_patch("docs/page.md", file.data, result)
    starts = file.head.rfind(b"\n") + 1
    rest = file.tail.find(b"\n") + 1 or len(file.tail)
    old_lines = file.data[starts : len(file.data) - len(file.tail) + rest]
    new_lines = result[starts : len(result) - len(file.tail) + rest]
    assert patch.deletions <= len(split_lines(old_lines))
    assert patch.additions <= len(split_lines(new_lines))
    hunks = [line for line in split_lines(patch.data) if line.startswith((b"-", b"+"))][2:]
    assert all(line[1:].rstrip(b"\n") in old_lines for line in hunks if line.startswith(b"-"))
    assert all(line[1:].rstrip(b"\n") in new_lines for line in hunks if line.startswith(b"+"))


def split_lines(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.removesuffix(b"\n").split(b"\n")] if data else []


def apply_patch(folder: Path, path: str, old: bytes | None, patch: bytes) -> bytes | None:
    """Applies the patch with git and returns the file."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if old is not None:
        target.write_bytes(old)
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, input=patch, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode() + patch.decode("utf-8", "replace")
    return target.read_bytes() if target.exists() else None


@pytest.mark.deep
@given(file=files(), new=NEW)
def test_git_applies_the_diff_to_the_same_bytes(tmp_path: Path, file: EditedFile, new: str) -> None:
    result = replace_in_file(file, new)
    if result != file.data:
        patch = create_patch("docs/page.md", file.data, result)
        assert apply_patch(tmp_path, "docs/page.md", file.data, patch.data) == result


@pytest.mark.parametrize(
    "path",
    [
        "a.md",
        "docs/two words.md",
        "docs/ümlaut.md",
        'docs/"quoted".md',
        "docs/b/a/b.md",
        "-x.md",
        "docs/tab	here.md",
    ],
)
@pytest.mark.parametrize(("old", "new"), [(None, b"new\n"), (b"old", None), (b"a\n", b"b"), (None, b""), (b"", None)])
def test_git_applies_diffs_that_create_and_delete_files(
    tmp_path: Path, path: str, old: bytes | None, new: bytes | None
) -> None:
    patch = create_patch(path, old, new)
    assert patch.data, "a file that comes or goes is a change, even an empty one"
    assert apply_patch(tmp_path, path, old, patch.data) == new


@pytest.mark.deep
@pytest.mark.parametrize("ending", [LF, CRLF])
def test_five_megabytes_are_edited_exactly_and_quickly(tmp_path: Path, ending: str) -> None:
    line = "Übung macht den Meister 😀, sagt man." + ending
    before, after = line * 62_000, line * 62_000
    file = EditedFile(before, "«old", ending + after, "utf-8", BOM, ending)
    assert len(file.data) > 5_000_000
    with limit_cpu(seconds=5):
        result = replace_in_file(file, "first\nsecond")
        assert result == file.head + f"first{ending}second".encode() + file.tail
        patch = create_patch("docs/page.md", file.data, result)
    assert (patch.additions, patch.deletions) == (2, 1)
    assert len(patch.data) < 2000
    assert apply_patch(tmp_path, "docs/page.md", file.data, patch.data) == result


def test_file_whose_encoding_cannot_hold_the_new_text_is_unchanged() -> None:
    with pytest.raises(NotEditable, match="Latin-1"):
        text_edits.apply_replacements(b"caf\xe9 old", [Replacement("old", "→")])
    assert text_edits.apply_replacements(b"caf\xe9 old", [Replacement("old", "né")]) == b"caf\xe9 n\xe9"


def test_ambiguous_missing_or_overlapping_replacement_is_refused() -> None:
    for wanted in (
        [Replacement("a", "b")],
        [Replacement("z", "b")],
        [Replacement("", "b")],
        [Replacement("a", "b", line=9)],
        [Replacement("a", "b", line=2)],
        [Replacement("aaa", "b"), Replacement("a\nb", "c")],
    ):
        with pytest.raises(NotEditable):
            text_edits.apply_replacements(b"aaa\nb\n", wanted)
    assert text_edits.apply_replacements(b"a\na\n", [Replacement("a", "b", line=2)]) == b"a\nb\n"


def test_a_binary_file_is_not_edited() -> None:
    with pytest.raises(NotEditable):
        text_edits.apply_replacements(b"a\x00b", [Replacement("a", "b")])
