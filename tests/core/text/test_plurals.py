"""Numbers with their nouns."""

import re
from pathlib import Path

import pytest

import copydesk
from copydesk.core.text.plurals import pluralize

PACKAGE = Path(copydesk.__file__).parent
HAND_WRITTEN = re.compile(
    r"""\{['"]{2} if [^{}]+ == 1 else ['"]s['"]\}|\{\{ ['"]{2} if [^{}]+ == 1 else ['"]s['"] \}\}"""
)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1200, "1,200 files"), (-1, "-1 files")]
)
def test_noun_follows_the_number(count: int, text: str) -> None:
    assert pluralize(count, "file") == text


def test_irregular_plural_is_given() -> None:
    assert pluralize(1, "entry", "entries") == "1 entry"
    assert pluralize(3, "entry", "entries") == "3 entries"


def test_every_plural_comes_from_the_one_function() -> None:
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.html")]
    assert len(files) > 400
    assert [str(file) for file in files if HAND_WRITTEN.search(file.read_text("utf-8"))] == []
