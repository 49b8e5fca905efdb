"""Front matter has the fields that YAML or TOML gives it, and a field can be added without changing anything else."""

from collections import Counter
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from copydesk.jobs.pages.lines import apply_edits
from copydesk.jobs.pages.parsing import front_matter
from copydesk.jobs.pages.parsing.front_matter import FRONT_MATTER_PATTERN
from copydesk.jobs.pages.parsing.yaml_reader import MERGE_TAG, BoundedLoader, load_yaml

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
    try:
        loaded, node = yaml.load(inner, BoundedLoader), yaml.compose(inner, BoundedLoader)
    except (yaml.YAMLError, ValueError):
        return None
    if not isinstance(loaded, dict) or not isinstance(node, yaml.MappingNode):
        return None
    names = {_load_key(key): key.value for key, _ in node.value if key.tag != MERGE_TAG}
    return {names.get(key, str(key)): value for key, value in loaded.items()}, [
        (key.value, key.start_mark.line + 2) for key, _ in node.value
    ]


def _load_key(key: yaml.Node) -> object:
    """Returns the value that YAML gives to a name; `on`, for example, is true."""
    return BoundedLoader("").construct_object(key, deep=True)


def _describe(value: Any) -> object:
    """Returns a value that can be compared, also if it is not a number."""
    return value if isinstance(value, str) else (type(value), repr(value))


@pytest.mark.parametrize("value", KNOWN)
def test_value_is_parsed_as_yaml(value: str) -> None:
    _assert_as_yaml(f"a: {value}\n")


@pytest.mark.deep
@given(st.lists(LINES, min_size=1, max_size=4).map("".join))
def test_every_block_of_fields_is_parsed_as_yaml(inner: str) -> None:
    block = FRONT_MATTER_PATTERN.match(f"---\n{inner}---\n")
    assume(block is not None and block["inner"] == inner and not front_matter.TEMPLATE_PATTERN.search(inner))
    _assert_as_yaml(inner)


def _assert_as_yaml(inner: str) -> None:
    matter, expected = front_matter.parse_front_matter(f"---\n{inner}---\n"), _parse_with_yaml(inner)
    if expected is None:
        assert matter is None or matter.fields is None
        return
    fields, places = expected
    assert matter is not None
    assert matter.fields is not None
    assert {name: _describe(value) for name, value in matter.fields.items()} == {
        name: _describe(value) for name, value in fields.items()
    }
    assert matter.parsed.lines == tuple(dict(places).get(name, 1) for name in matter.fields)
    twice = Counter(name for name, _ in places if name != "<<")
    assert len(matter.parsed.problems) == twice.total() - len(twice)


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ("---\ntitle: A\n---\n", ("title",)),
        ("---\r\ntitle: A\r\nb: 1\r\n---", ("title", "b")),
        ("---\na: [\nb: 1\n---\n", ("a", "b")),
        ('+++\ntitle = "A"\n[menu]\nweight = 1\n+++\n', ("title", "menu")),
        ("---\n---\n", ()),
        ('---\n{a: 1, "b": "{{ x }}"}\n---\n', ("a", "b")),
        ("---\n\nText\n\n---\n", None),
        ("\n---\ntitle: A\n---\n", None),
        ("---\ntitle: A\n", None),
        ("----\ntitle: A\n----\n", None),
    ],
)
def test_front_matter_must_be_at_the_top(body: str, keys: tuple[str, ...] | None) -> None:
    matter = front_matter.parse_front_matter(body)
    assert (matter.keys if matter else None) == keys


def test_toml_front_matter_gets_no_yaml_field() -> None:
    assert front_matter.build_field_edit('+++\ntitle = "A"\n+++\n', "description", "x") is None


@pytest.mark.deep
@given(
    st.text(min_size=1).filter(str.strip), st.sampled_from(["", "---\na: 1\n---\n", "---\r\na: 1\r\nt:\r\n---\r\nx"])
)
def test_added_field_is_read_back_unchanged(value: str, body: str) -> None:
    edit = front_matter.build_field_edit(body, "t", front_matter.quote_yaml(value))
    assert edit is not None
    matter = front_matter.parse_front_matter(apply_edits(body, [edit]))
    assert matter is not None
    assert matter.fields is not None
    assert matter.fields["t"] == " ".join(value.split())


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ('+++\ntitle = "A"\nweight = 3\n+++\n# H\n', {"title": "A", "weight": 3}),
        ("---\non: push\n---\n", {"on": "push"}),
        ("---\n1: a\ntitle: b\n---\n", {"1": "a", "title": "b"}),
        ("---\na: 1\na: 2\n---\n", {"a": 2}),
        ('---\ntitle: "{{ x }}"\n---\n', None),
        ("---\ntitle: !secret x\n---\n", None),
        ("+++\ntitle = \n+++\n", None),
    ],
)
def test_fields_have_the_names_that_are_written(body: str, fields: dict[str, object] | None) -> None:
    matter = front_matter.parse_front_matter(body)
    assert matter is not None
    assert matter.fields == fields


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("# H\n", "---\nd: x\n---\n\n# H\n"),
        ("---\nd: []\n---\n", "---\nd: x\n---\n"),
        ("---\non: push\n---\n", "---\non: push\nd: x\n---\n"),
        ("---\ntitle: A\n# H\n", None),  # never closed
        ('---\ntitle: "{{ x }}"\n---\n', None),
        ("---\nd: y\n---\n", None),
    ],
)
def test_field_is_added_only_where_that_is_safe(body: str, expected: str | None) -> None:
    edit = front_matter.build_field_edit(body, "d", "x")
    assert (apply_edits(body, [edit]) if edit else None) == expected


@pytest.mark.parametrize("piece", ["[", "- [", "{a: "])
def test_deeply_nested_brackets_are_not_parsed(piece: str) -> None:
    matter = front_matter.parse_front_matter(f"---\ntitle: x\nlist: {piece * 2000}\n---\n")
    assert matter is not None
    assert (matter.fields, matter.keys[0]) == (None, "title")


@pytest.mark.parametrize(
    "text",
    ["- " * 120, "? " * 120, "[" * 120 + "]" * 120, "\r".join(" " * level + "a:" for level in range(250))],
    ids=["lists", "keys", "brackets", "indented after carriage returns"],
)
def test_deeply_nested_yaml_is_refused_before_it_is_composed(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="nested too deeply"):
        load_yaml(text)


def test_many_brackets_side_by_side_are_parsed() -> None:
    matter = front_matter.parse_front_matter(f"---\nlist: [{'[], ' * 1500}]\n---\n")
    assert matter is not None
    assert matter.fields == {"list": [[]] * 1500}
