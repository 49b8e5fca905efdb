"""The case of a replacement follows that of each occurrence."""

import pytest

from copydesk.jobs.agent.mechanic.phrase_matcher import PhraseMatcher


@pytest.mark.parametrize(
    ("old", "new", "body", "replaced"),
    [
        ("colour", "color", "colour Colour COLOUR", ["color", "Color", "COLOR"]),
        ("x", "width", "X is the width, x too", ["Width", "width"]),
        ("x2", "width", "X2", ["Width"]),
    ],
)
def test_a_single_capital_letter_is_the_beginning_of_a_word(old: str, new: str, body: str, replaced: list[str]) -> None:
    edits, _ = PhraseMatcher(old, new).find_edits(body, body)
    assert [text for _, _, text in edits] == replaced
