"""Reads YAML without constructing custom tags, with bounds on what it costs."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from copydesk.jobs.pages.lines import Span

MAX_SLOW_YAML_CHARS = 64_000
"""Limits the text that the slow loader reads."""
MAX_FAST_BRACKETS, MAX_BRACKET_DEPTH = 1000, 100
LEAF_PATTERN = re.compile(r"\[[^\[\]{}\"'#\n]*+\]|\{[^\[\]{}\"'#\n]*+\}")
BRACKET_PATTERN = re.compile(r"[\[\]{}]")
DEEP_NESTING_PATTERN = re.compile(r"(?:[-?:][ \t]+){50}|^ {1000}", re.M)
MERGE_TAG = "tag:yaml.org,2002:merge"
MAX_MERGED_MAPPINGS, MAX_MERGED_FIELDS = 100, 1000
YAML_ERRORS = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, ValueError)
"""Exceptions that PyYAML raises for text that it cannot read. A value that does not fit its tag may raise any."""
ANCHOR_OR_TAG_PATTERN = re.compile(r"(?:[&!]\S*+\s++)*+")


class _BoundedMerges:
    """Raises ConstructorError for too many merge keys (`<<`): mappings that merge others twice double each time."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        merged = sum(
            len(value.value) if isinstance(value, yaml.SequenceNode) else 1
            for key, value in node.value
            if key.tag == MERGE_TAG
        )
        if merged <= MAX_MERGED_MAPPINGS:
            super().flatten_mapping(node)  # type: ignore[misc]
        if merged > MAX_MERGED_MAPPINGS or (merged and len(node.value) > MAX_MERGED_FIELDS):
            raise yaml.constructor.ConstructorError(None, None, "too many merged fields", node.start_mark)


class SlowLoader(_BoundedMerges, yaml.SafeLoader):
    pass


class FastLoader(_BoundedMerges, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    pass


def choose_loader(text: str) -> Any:
    """Returns libyaml's fast loader, or the Python loader for deep nesting, which would overflow libyaml's C stack.

    Raises YAMLError if brackets are nested deeper than in any real file: the Python loader would take seconds."""
    if _count_brackets(text) > MAX_FAST_BRACKETS and _limit_depth(text) > MAX_FAST_BRACKETS:
        if _measure_bracket_depth(text) > MAX_BRACKET_DEPTH:
            raise yaml.YAMLError("nested too deeply")
        return SlowLoader
    return SlowLoader if DEEP_NESTING_PATTERN.search(text) else FastLoader


def _count_brackets(text: str) -> int:
    return text.count("[") + text.count("{")


def _limit_depth(text: str) -> int:
    """Returns a number of levels that brackets are surely not nested deeper than.

    Removes lists and mappings that contain no others, again and again. In such a span, without quotes and comments, the
    closing bracket ends the list, or all of the span is inside a string or comment and has no meaning.
    """
    for levels in range(MAX_BRACKET_DEPTH):
        shorter = LEAF_PATTERN.sub("", text)
        if len(shorter) == len(text):
            return levels + _count_brackets(text)
        text = shorter
    return MAX_BRACKET_DEPTH + _count_brackets(text)


def _measure_bracket_depth(text: str) -> int:
    """Returns how deep brackets are nested, also counting those in strings."""
    depth = 0
    deepest = 0
    for bracket in BRACKET_PATTERN.findall(text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def compose_yaml(text: str) -> yaml.Node | None:
    """Returns the nodes of a YAML file, including custom tags, without constructing values.

    Returns None for an empty file and for a long one that only the slow loader could read. Raises YAMLError, and
    ValueError or RecursionError for text that PyYAML fails to process."""
    loader = choose_loader(text)
    if loader is SlowLoader and len(text) > MAX_SLOW_YAML_CHARS:
        return None
    node: yaml.Node | None = yaml.compose(text, Loader=loader)
    return node


def load_yaml(text: str) -> Any:
    """Returns the value of a YAML text. Raises one of YAML_ERRORS."""
    return yaml.load(text, Loader=choose_loader(text))  # noqa: S506 (a safe loader, either way)


def compose_or_none(text: str) -> yaml.Node | None:
    """Returns the nodes of a YAML file like `compose_yaml`, or None if PyYAML fails to process the text.

    Raises YAMLError if it is not valid YAML.
    """
    try:
        return compose_yaml(text)
    except (ValueError, RecursionError):
        return None


def iter_scalars(node: yaml.Node, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], yaml.ScalarNode]]:
    """Yields every scalar with the keys above it, in the order of the file."""
    pending: list[tuple[tuple[str, ...], Any]] = [(keys, node)]
    seen: set[int] = set()  # an alias repeats a node, and may form a cycle
    while pending:
        parent_keys, current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, yaml.ScalarNode):
            yield parent_keys, current
        elif isinstance(current, yaml.SequenceNode):
            pending += [(parent_keys, item) for item in reversed(current.value)]
        elif isinstance(current, yaml.MappingNode):
            pending += [((*parent_keys, str(key.value)), value) for key, value in reversed(current.value)]


def find_scalar_span(text: str, node: yaml.ScalarNode) -> Span | None:
    """Returns where the value of a scalar is written, without anchor, tag and quotes.

    Returns None if the value is not written literally: a block scalar, an escape, or several lines.
    """
    if node.style not in (None, "", "'", '"'):
        return None
    prefix = ANCHOR_OR_TAG_PATTERN.match(text, node.start_mark.index, node.end_mark.index)
    start = prefix.end() if prefix else node.start_mark.index
    quote_width = 1 if node.style else 0
    span = start + quote_width, node.end_mark.index - quote_width
    return span if text[span[0] : span[1]] == node.value else None
