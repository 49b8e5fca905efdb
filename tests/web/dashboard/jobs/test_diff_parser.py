"""Parsed diffs lose and add no character, for any files and any diff."""

from collections.abc import Sequence

import pygit2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from copydesk.web.dashboard.jobs.diff_parser import DiffLine, Gap, Hunk, Patch, mark_word_differences, parse_patch

SOME = settings(max_examples=80, deadline=None)
LINES = st.lists(st.sampled_from(["", "a", "b", "b c", "+a", "-a", "@@ -1 +1 @@", "\\ No", "é\u2028x", "\r", " "]))
FILES = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))
LONG = [f"line {n}" for n in range(1, 61)]


def make_patch_text(old: str | None, new: str | None, context: int = 3) -> str:
    made = pygit2.Patch.create_from(
        None if old is None else old.encode(),
        None if new is None else new.encode(),
        old_as_path="a.md",
        new_as_path="a.md",
        context_lines=context,
    )
    return (made.data or b"").decode()


def make_patch(old: str | None, new: str | None) -> Patch:
    return parse_patch(make_patch_text(old, new))


def hunk_lines(patch: Patch) -> list[DiffLine]:
    return [line for hunk in patch.hunks for line in hunk.lines]


def line_texts(lines: Sequence[DiffLine | None]) -> list[str]:
    return [line.text for line in lines if line]


@pytest.mark.deep
@SOME
@given(FILES, FILES, st.integers(0, 4))
def test_parsed_diff_of_any_two_files_round_trips(old: str, new: str, context: int) -> None:
    text = make_patch_text(old, new, context)
    patch = parse_patch(text)
    assert patch.to_text() == text
    assert patch.trailing_lines in ((), ("",)), "nothing of git's own is left over"


@SOME
@given(st.text(alphabet=st.sampled_from("+- @\\,120ab\n"), max_size=80))
@example("@@ -1,2 +1,2 @@\n a\n")
@example("@@ -1 +1 @@\n-a\n\\ No newline\n\\ Twice\n+b")
@example("@@ -999999999 +1 @@\n-a")
def test_text_that_is_not_a_diff_is_kept_completely(text: str) -> None:
    patch = parse_patch(text)
    assert patch.to_text() == text
    patch.build_blocks()
    patch.build_blocks("a\nb\n")


@pytest.mark.deep
@SOME
@given(FILES, FILES)
def test_side_by_side_shows_the_old_file_on_the_left_and_the_new_one_on_the_right(old: str, new: str) -> None:
    blocks = make_patch(old, new).build_blocks(old)
    pairs = [pair for block in blocks for pair in block.pairs]
    if old and blocks:
        assert line_texts([left for left, _ in pairs]) == old.removesuffix("\n").split("\n")
        assert line_texts([right for _, right in pairs]) == (new.removesuffix("\n").split("\n") if new else [])


@pytest.mark.deep
@SOME
@given(FILES, FILES)
def test_every_line_has_the_number_it_has_in_its_file(old: str, new: str) -> None:
    before, after = old.split("\n"), new.split("\n")
    lines = hunk_lines(make_patch(old, new))
    assert bool(lines) is bool(make_patch_text(old, new))
    for line in lines:
        assert line.old is None or before[line.old - 1] == line.text
        assert line.new is None or after[line.new - 1] == line.text


@pytest.mark.deep
@SOME
@given(st.text(max_size=60), st.text(max_size=60))
def test_marking_words_changes_no_letter(old: str, new: str) -> None:
    before, after = mark_word_differences(old, new)
    assert ("".join(part for part, _ in before), "".join(part for part, _ in after)) == (old, new)


def test_the_words_that_changed_are_marked() -> None:
    before, after = mark_word_differences("The colour of things.", "The color of things.")
    assert [part for part, changed in before if changed] == ["colour"]
    assert [part for part, changed in after if changed] == ["color"]
    assert mark_word_differences("a b c d", "a b all c d")[1] == (("a b", False), (" all", True), (" c d", False))


@pytest.mark.parametrize(("old", "new"), [("one two three", "alpha beta"), ("a b " * 200, "b a " * 200)])
def test_dissimilar_or_very_long_lines_are_not_marked(old: str, new: str) -> None:
    assert mark_word_differences(old, new) == (((old, False),), ((new, False),))


def test_unchanged_lines_between_changes_are_collapsed_and_expandable() -> None:
    old = "\n".join(LONG) + "\n"
    patch = make_patch(old, old.replace("line 10\n", "line ten\nand more\n").replace("line 50\n", ""))
    first, change, between, _, last = patch.build_blocks(old)
    assert isinstance(first, Gap)
    assert isinstance(change, Hunk)
    assert isinstance(between, Gap)
    assert isinstance(last, Gap)
    assert line_texts(first.lines) == LONG[:6]
    assert line_texts(between.lines) == LONG[13:46]
    assert [(line.old, line.new) for line in between.lines[:2]] == [(14, 15), (15, 16)]
    assert [(line.old, line.new) for line in last.lines] == [(n, n) for n in range(54, 61)]


def test_collapsed_lines_without_the_old_file_are_only_counted() -> None:
    old = "\n".join(LONG) + "\n"
    patch = make_patch(old, old.replace("line 30\n", "line thirty\n"))
    assert [block.count for block in patch.build_blocks() if isinstance(block, Gap)] == [26]
    assert all(not block.lines for block in patch.build_blocks("another file\n") if isinstance(block, Gap))


def test_a_missing_newline_at_the_end_is_noted_at_its_line() -> None:
    lines = hunk_lines(make_patch("a\nb", "a\nb\n"))
    assert [(line.sign, line.text, bool(line.note)) for line in lines] == [
        (" ", "a", False), ("-", "b", True), ("+", "b", False),
    ]  # fmt: skip


def test_binary_file_has_no_lines_and_is_marked() -> None:
    patch = make_patch("a\0b", "a\0c")
    assert patch.is_binary
    assert patch.hunks == ()


def test_old_blob_id_is_known_unless_the_file_is_new() -> None:
    assert make_patch("a\n", "b\n").old_blob == str(pygit2.hash(b"a\n"))[:7]
    assert make_patch(None, "b\n").old_blob is None
