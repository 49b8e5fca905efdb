"""Parses the front matter of a page, and adds fields without changing anything else."""

import re
from dataclasses import dataclass
from typing import Any

import yaml

from copydesk.jobs.pages.lines import Span

FRONT_MATTER_PATTERN = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?P<inner>(?:.*\n)*?)(?P<close>\1|\.\.\.)[ \t]*(?:\r?\n|$)")
KEY_PATTERN = re.compile(r"^(?P<key>[A-Za-z_][\w.-]*|\"[^\"\n]+\"|'[^'\n]+')[ \t]*:(?=\s|$)", re.M)
TOML_KEY_PATTERN = re.compile(r"^(?P<key>[A-Za-z_][\w.-]*|\"[^\"\n]+\"|'[^'\n]+')[ \t]*=", re.M)
EMPTY_VALUE_PATTERN = re.compile(r"[ \t]*(?:\"\"|''|~|null)?[ \t]*")
MAX_YAML_LINE_CHARS = 1_000_000
MAX_FRONT_MATTER_CHARS = 64_000
DEEP_NESTING_PATTERN = re.compile(r"(?:[-?:][ \t]+){50}|^ {1000}", re.M)
MERGE_TAG = "tag:yaml.org,2002:merge"
MAX_MERGED_MAPPINGS, MAX_MERGED_FIELDS = 100, 1000
YAML_ERRORS = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, ValueError)
"""Exceptions that PyYAML raises for text that it cannot read. A value that does not fit its tag may raise any."""
PLAIN_SCALAR_PATTERN = re.compile(r"[^\W_][\w ,.()/&+'’–—-]*")


@dataclass(frozen=True)
class FrontMatter:
    fields_start: int
    """Position after the opening fence."""
    fields_end: int
    """Position of the closing fence."""
    body_start: int
    """Position after the front matter."""
    keys: tuple[str, ...]
    fields: dict[str, Any] | None
    """None if the block is TOML or not a YAML mapping; then only `keys` is known."""

    def is_missing(self, name: str) -> bool:
        return name not in self.keys or (self.fields is not None and self.fields.get(name) in (None, ""))


def find_front_matter(body: str) -> FrontMatter | None:
    if not body.startswith(("---", "+++")):
        return None
    match = FRONT_MATTER_PATTERN.match(body)
    if match is None:
        return None
    inner, is_toml = match["inner"], match[1] == "+++"
    fields = None if is_toml else _load_mapping(inner)
    keys = tuple(fields or ())
    if fields is None:
        pattern = TOML_KEY_PATTERN if is_toml else KEY_PATTERN
        keys = tuple(key_match["key"].strip("\"'") for key_match in pattern.finditer(inner))
    if fields is None and not keys and not is_toml:
        return None  # two horizontal rules with text between them
    return FrontMatter(match.start("inner"), match.end("inner"), match.end(), keys, fields)


def find_body_start(body: str) -> int:
    """Returns the position after the front matter, or 0 if there is none. Usually faster than `find_front_matter`."""
    if not body.startswith(("---", "+++")):
        return 0
    match = FRONT_MATTER_PATTERN.match(body)
    if match is not None and (match[1] == "+++" or KEY_PATTERN.search(match["inner"])):
        return match.end()
    matter = find_front_matter(body)
    return matter.body_start if matter else 0


def build_field_edit(body: str, name: str, value: str) -> tuple[int, int, str] | None:
    """Returns the edit that adds this field: start, end and replacement; None if the edit is not safe.

    `value` is YAML. A block that cannot be parsed and a field that has a value are never edited."""
    newline = "\r\n" if "\r\n" in body else "\n"
    matter = find_front_matter(body)
    if matter is None:
        return (0, 0, newline.join(("---", f"{name}: {value}", "---", "", "")))
    if matter.fields is None or not matter.is_missing(name):
        return None
    if name not in matter.keys:
        return (matter.fields_end, matter.fields_end, f"{name}: {value}{newline}")
    span = _find_empty_value(body, matter, name)
    return None if span is None else (*span, f" {value}")


def _find_empty_value(body: str, matter: FrontMatter, name: str) -> Span | None:
    for key_match in KEY_PATTERN.finditer(body, matter.fields_start, matter.fields_end):
        if key_match["key"].strip("\"'") == name:
            value_match = EMPTY_VALUE_PATTERN.match(body, key_match.end(), matter.fields_end)
            if value_match and body[value_match.end() : value_match.end() + 2].startswith(("\n", "\r\n")):
                return value_match.span()
    return None


def quote_yaml(text: str) -> str:
    """Returns the text as a YAML value that loads as the same text, with whitespace collapsed."""
    text = " ".join(text.split())
    if PLAIN_SCALAR_PATTERN.fullmatch(text) and text == text.strip() and _load_mapping(f"k: {text}\n") == {"k": text}:
        return text
    return str(yaml.safe_dump(text, default_style='"', allow_unicode=True, width=MAX_YAML_LINE_CHARS)).rstrip("\n")


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
    """Returns libyaml's fast loader, or the Python loader for deep nesting, which would overflow libyaml's C stack."""
    is_deep = text.count("[") + text.count("{") > 1000 or DEEP_NESTING_PATTERN.search(text)
    return SlowLoader if is_deep else FastLoader


def compose_yaml(text: str) -> yaml.Node | None:
    """Returns the nodes of a YAML file, including custom tags, without constructing values.

    Returns None for an empty file and for a long one that only the slow loader could read. Raises YAMLError, and
    ValueError or RecursionError for text that PyYAML fails to process."""
    loader = choose_loader(text)
    if loader is SlowLoader and len(text) > MAX_FRONT_MATTER_CHARS:
        return None
    node: yaml.Node | None = yaml.compose(text, Loader=loader)
    return node


def load_yaml(text: str) -> Any:
    """Returns the value of a YAML text. Raises one of YAML_ERRORS."""
    return yaml.load(text, Loader=choose_loader(text))  # noqa: S506 (a safe loader, either way)


def _load_mapping(inner: str) -> dict[str, Any] | None:
    """Returns a mapping whose keys are all strings, or None. An empty block is an empty mapping."""
    if len(inner) > MAX_FRONT_MATTER_CHARS:
        return None
    try:
        loaded = load_yaml(inner)
    except YAML_ERRORS:
        return None
    if loaded is None:
        return {}
    return loaded if isinstance(loaded, dict) and all(isinstance(key, str) for key in loaded) else None
