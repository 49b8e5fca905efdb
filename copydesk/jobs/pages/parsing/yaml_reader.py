"""Reads YAML without constructing custom tags, with bounds on what it costs."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from copydesk.jobs.pages.lines import Span

MAX_DEPTH = 100
MAX_UNCHECKED_BRACKETS = 100
DEEP_NESTING_PATTERN = re.compile(r"(?:[-?:][ \t]+){50}| {200}")
MERGE_TAG = "tag:yaml.org,2002:merge"
MAX_MERGED_MAPPINGS, MAX_MERGED_FIELDS = 100, 1000
YAML_ERRORS = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, ValueError)
"""Exceptions that PyYAML raises for text that it cannot read. A value that does not fit its tag may raise any."""
ANCHOR_OR_TAG_PATTERN = re.compile(r"(?:[&!]\S*+\s++)*+")


class BoundedLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads YAML with libyaml. Raises YAMLError for text that is nested too deeply or merges too many mappings."""

    def __init__(self, text: str) -> None:
        _check_depth(text)
        super().__init__(text)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Applies merge keys (`<<`), if they are few: mappings that merge others twice double each time."""
        merged = sum(
            len(value.value) if isinstance(value, yaml.SequenceNode) else 1
            for key, value in node.value
            if key.tag == MERGE_TAG
        )
        if merged <= MAX_MERGED_MAPPINGS:
            super().flatten_mapping(node)
        if merged > MAX_MERGED_MAPPINGS or (merged and len(node.value) > MAX_MERGED_FIELDS):
            raise yaml.constructor.ConstructorError(None, None, "too many merged fields", node.start_mark)


def _check_depth(text: str) -> None:
    """Raises YAMLError if lists and mappings are nested so deeply that composing them could overflow the C stack.

    Reading events needs no recursion and costs less than composing. Text that is surely not deep is not read.
    """
    brackets = text.count("[") + text.count("{")
    if brackets <= MAX_UNCHECKED_BRACKETS and not DEEP_NESTING_PATTERN.search(text):
        return
    depth = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise yaml.YAMLError("nested too deeply")


def compose_yaml(text: str) -> yaml.Node | None:
    """Returns the nodes of a YAML file, including custom tags, without constructing values.

    Returns None for an empty file. Raises YAMLError, and ValueError or RecursionError for text that PyYAML fails to
    process."""
    node: yaml.Node | None = yaml.compose(text, Loader=BoundedLoader)
    return node


def load_yaml(text: str) -> Any:
    """Returns the value of a YAML text. Raises one of YAML_ERRORS."""
    return yaml.load(text, Loader=BoundedLoader)  # noqa: S506 (a subclass of the safe loader)


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
