"""Patterns that others wrote are matched as forges match them, and cost no more than their text is long."""

import subprocess
import sys

import pytest

from copydesk.core.text.safe_regex import MAX_PATTERN_CHARS, search_re2
from tests.support.cpu_growth import Pump, assert_linear


def test_a_pattern_is_searched_anywhere_in_the_text() -> None:
    assert search_re2("^docs/", "docs/a") is True
    assert search_re2("b", "abc") is True
    assert search_re2("^b", "abc") is False
    assert search_re2("(?i)É", "é") is True
    assert search_re2("", "a") is True
    assert search_re2(".", "\n") is False
    assert search_re2("^b$", "a\nb") is False


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "(?=a)", r"(a)\1", "a{1001}", "[b-a]", "\ud800"),
        "((a{100}){100}){100}",
        "a" * (MAX_PATTERN_CHARS + 1),
    ],
    ids=lambda pattern: ascii(pattern)[:20],
)
def test_what_re2_does_not_accept_matches_neither_way(pattern: str) -> None:
    assert search_re2(pattern, "aa") is None


def test_a_text_that_is_not_unicode_matches_neither_way() -> None:
    assert search_re2("a", "a\ud800") is None


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*a){20}$", "(x+x+)+y"])
def test_patterns_that_backtrack_elsewhere_take_linear_time(pattern: str) -> None:
    assert_linear(lambda text: search_re2(pattern, text), Pump("a", suffix="!"), 5_000)


def test_an_invalid_pattern_is_not_printed() -> None:
    code = "from copydesk.core.text.safe_regex import search_re2; assert search_re2('(', '') is None"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
