"""Our front matter parser agrees with YAML."""

from collections import Counter
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from copydesk.jobs.checks.parsing import front_matter
from copydesk.jobs.pages.front_matter import FRONT_MATTER_PATTERN, choose_loader

WORDS = "yes No TRUE tRue off null Null ~ y n = << 0 010 7 1234567890 12:30 1_0 -1 1.5 1e3 .inf 2020-01-01 *a @a %a | >"
SHAPES = "it's¦'it''s'¦'a\\b'¦\"a\\tb\"¦\"a\" b¦''¦\"\"¦a: b¦a:b¦a #b¦a#b¦a - b¦&a b¦!a b¦[a, b]¦{a: b}¦a\tb¦a "
SPECIAL = "aZ7 :#'\"\\-_,.[]{}&*!|>%@`?~=\t\r\x0b\x7f\x85\xa0\u2028\ufeff\ue000é😀"
KNOWN = [*WORDS.split(), *SHAPES.split("¦"), *(f"a{each}b" for each in SPECIAL), "a" * 300]
VALUES = st.one_of(
    st.sampled_from(KNOWN),
    st.text(SPECIAL, max_size=6),
    st.tuples(st.sampled_from(["a{}", '"{}"', "'{}'"]), st.text(max_size=8)).map(lambda each: each[0].format(each[1])),
)
NAMES = st.one_of(
    st.sampled_from(["title", "a", "_c", "no", "Null", "7", "é", "'e'", "<<"]), st.text("yesn_-", min_size=1)
)
COLONS = st.sampled_from([": "] * 6 + [":  ", ":", " : "])
ENDS = st.sampled_from(["\n"] * 6 + ["\r\n", " \n", "\n\n", "\n  more\n", "\n# said\n", " # said\n"])
LINES = st.tuples(NAMES, COLONS, VALUES, ENDS).map("".join)


def _parse_with_yaml(inner: str) -> tuple[dict[str, Any], list[tuple[str, int]]] | None:
    """Returns the fields, with the name and line of each; None if it is not YAML or has no fields."""
    loader = choose_loader(inner)
    try:
        loaded, node = yaml.load(inner, loader), yaml.compose(inner, loader)
    except (yaml.YAMLError, ValueError):
        return None
    if not isinstance(loaded, dict) or not isinstance(node, yaml.MappingNode):
        return None
    return {str(key): value for key, value in loaded.items()}, [
        (key.value, key.start_mark.line + 2) for key, _ in node.value
    ]


def _stored_value(value: Any) -> object:
    """Reduces a value to what the checks need: the type, a number, and the beginning of a text."""
    return value[:200] if isinstance(value, str) else (type(value), value if isinstance(value, int | float) else "")


@pytest.mark.parametrize("value", KNOWN)
def test_value_is_parsed_as_yaml(value: str) -> None:
    _assert_as_yaml(f"a: {value}\n")


@settings(max_examples=200, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=4).map("".join))
def test_every_block_of_fields_is_parsed_as_yaml(inner: str) -> None:
    block = FRONT_MATTER_PATTERN.match(f"---\n{inner}---\n")
    assume(block is not None and block["inner"] == inner and not front_matter.TEMPLATE_PATTERN.search(inner))
    _assert_as_yaml(inner)


def _assert_as_yaml(inner: str) -> None:
    found, expected = front_matter.parse_front_matter(f"---\n{inner}---\n"), _parse_with_yaml(inner)
    if expected is None:
        assert found.fields == {}
        return
    fields, places = expected
    assert found.is_readable
    assert list(found.fields) == list(fields)
    assert [_stored_value(value) for value in found.fields.values()] == [
        _stored_value(value) for value in fields.values()
    ]
    assert found.field_lines == tuple(dict(places).get(name, 1) for name in fields)
    twice = Counter(name for name, _ in places if name != "<<")
    assert len(found.problems) == twice.total() - len(twice)
