"""Parses the front matter of a page, and adds fields without changing anything else."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

import yaml

from copydesk.jobs.pages.lines import Span
from copydesk.jobs.pages.parsing.page_facts import PageProblem
from copydesk.jobs.pages.parsing.yaml_reader import MERGE_TAG, YAML_ERRORS, BoundedLoader, load_yaml

FRONT_MATTER_RULE = "front-matter"
FRONT_MATTER_PATTERN = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?P<inner>(?:.*\n)*?)(?P<close>\1|\.\.\.)[ \t]*(?:\r?\n|$)")
KEY_PATTERN = re.compile(r"^(?P<key>[A-Za-z_][\w.-]*|\"[^\"\n]+\"|'[^'\n]+')[ \t]*:(?=\s|$)", re.M)
TOML_KEY_PATTERN = re.compile(r"^(?P<key>[A-Za-z_][\w.-]*|\"[^\"\n]+\"|'[^'\n]+')[ \t]*=", re.M)
UNCLOSED_PATTERN = re.compile(r"---[ \t]*\r?\n[ \t]*[A-Za-z_][\w-]*:(?:[ \t]|\r?\n)")
CLOSING_PATTERN = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.M)
TEMPLATE_PATTERN = re.compile(r"\{\{|\{%|<%|\$\{")
EMPTY_VALUE_PATTERN = re.compile(r"[ \t]*(?:\"\"|''|~|null|\[[ \t]*\])?[ \t]*")
MAX_YAML_LINE_CHARS = 1_000_000
MAX_FRONT_MATTER_CHARS = 64_000
MAX_TOML_DOTS_PER_LINE = 100
"""Limits the dots in a line of TOML, because its parser is slow for names of many parts."""
PLAIN_SCALAR_PATTERN = re.compile(r"[^\W_][\w ,.()/&+'’–—-]*")
# Characters that YAML refuses or does not read literally.
SPECIAL_CHARS = r"\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\uffff"
FLAT_FIELD_PATTERN = re.compile(
    r"([A-Za-z_][A-Za-z0-9_-]{0,99}): +"
    rf"(?:(?:\"([^\"\\{SPECIAL_CHARS}]*)\"|'([^'{SPECIAL_CHARS}]*)'|([1-9][0-9]{{0,8}})) *+"
    rf"|([A-Za-z][^:#{SPECIAL_CHARS}]*+))\r?\n"
)
INTEGER_GROUP, BARE_GROUP = 4, 5
"""Groups of FLAT_FIELD_PATTERN that match values without quotes."""
YAML_CONSTANTS = {
    form: value
    for word, value in {**yaml.constructor.SafeConstructor.bool_values, "null": None}.items()
    for form in (word, word.capitalize(), word.upper())
}


@dataclass(frozen=True, slots=True)
class ParsedFields:
    """The fields of a block of front matter."""

    fields: Mapping[str, Any] | None
    """Values by the name as written; None if the block cannot be parsed."""
    lines: tuple[int, ...] = ()
    """Line numbers of `fields`, in the same order. Empty for TOML."""
    problems: tuple[PageProblem, ...] = ()


UNREADABLE_FIELDS = ParsedFields(None)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    fields_start: int
    """Position after the opening fence."""
    fields_end: int
    """Position of the closing fence."""
    body_start: int
    """Position after the front matter."""
    is_toml: bool
    keys: tuple[str, ...]
    """Names of the fields, also of a block that cannot be parsed."""
    parsed: ParsedFields

    @property
    def fields(self) -> Mapping[str, Any] | None:
        return self.parsed.fields

    @property
    def is_editable(self) -> bool:
        """Returns whether fields can be added and changed: only in YAML that can be parsed."""
        return self.fields is not None and not self.is_toml

    def is_missing(self, name: str) -> bool:
        return name not in self.keys or (self.fields is not None and is_empty(self.fields.get(name)))


def is_empty(value: Any) -> bool:
    """Returns whether a field has no value."""
    return value in (None, "", [])


def parse_front_matter(body: str) -> FrontMatter | None:
    """Returns the front matter of a page, or None if it has none."""
    if not body.startswith(("---", "+++")):
        return None
    match = FRONT_MATTER_PATTERN.match(body)
    if match is None:
        return None
    inner = match["inner"]
    is_toml = match[1] == "+++"
    if len(inner) > MAX_FRONT_MATTER_CHARS:
        parsed = UNREADABLE_FIELDS
    elif is_toml:
        parsed = ParsedFields(_load_toml(inner))
    else:
        parsed = _parse_flat(inner) or _parse_yaml(inner)
    keys = _find_keys(inner, is_toml) if parsed.fields is None else tuple(parsed.fields)
    if parsed.fields is None and not keys and not is_toml:
        return None  # two horizontal rules with text between them
    if TEMPLATE_PATTERN.search(inner):
        parsed = UNREADABLE_FIELDS  # a template fills in the values later
    return FrontMatter(match.start("inner"), match.end("inner"), match.end(), is_toml, keys, parsed)


def _find_keys(inner: str, is_toml: bool) -> tuple[str, ...]:
    pattern = TOML_KEY_PATTERN if is_toml else KEY_PATTERN
    return tuple(key_match["key"].strip("\"'") for key_match in pattern.finditer(inner))


def find_body_start(body: str) -> int:
    """Returns the position after the front matter, or 0 if there is none. Usually faster than `parse_front_matter`."""
    if not body.startswith(("---", "+++")):
        return 0
    match = FRONT_MATTER_PATTERN.match(body)
    if match is not None and (match[1] == "+++" or KEY_PATTERN.search(match["inner"])):
        return match.end()
    matter = parse_front_matter(body)
    return matter.body_start if matter else 0


def is_unclosed(body: str) -> bool:
    """Returns whether a page begins with front matter that never ends."""
    return UNCLOSED_PATTERN.match(body) is not None and CLOSING_PATTERN.search(body, 4) is None


def _parse_flat(inner: str) -> ParsedFields | None:
    """Parses front matter in which each line is a name and a plain value; returns None for any other.

    The result is the same as that of the YAML parser, which is much slower.
    """
    fields: dict[str, Any] = {}
    position = 0
    for match in FLAT_FIELD_PATTERN.finditer(inner):
        name = match[1]
        group = match.lastindex or 0
        if match.start() != position or name in fields:
            return None
        value: Any = match[group]
        if group == BARE_GROUP:
            value = YAML_CONSTANTS.get(text := value.rstrip(" "), text)
        fields[intern(name)] = int(value) if group == INTEGER_GROUP else value
        position = match.end()
    if not fields or position < len(inner):
        return None
    return ParsedFields(fields, tuple(range(2, 2 + len(fields))))


def _parse_yaml(inner: str) -> ParsedFields:
    try:
        loader = BoundedLoader(inner)
        node = loader.get_single_node()
        lines, duplicates = _find_field_lines(node)
        _keep_names_as_written(node)
        loaded = loader.construct_document(node) if node is not None else {}
        loader.dispose()
    except yaml.constructor.ConstructorError:
        return UNREADABLE_FIELDS  # a custom tag that only the generator knows
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        message = f"The front matter is not valid YAML: {_format_yaml_error(error.problem or '')}."
        return ParsedFields(None, (), (PageProblem(FRONT_MATTER_RULE, line, message),))
    except YAML_ERRORS:
        return UNREADABLE_FIELDS
    if not isinstance(loaded, dict):
        return UNREADABLE_FIELDS
    fields = {str(key): value for key, value in loaded.items()}
    problems = tuple(
        PageProblem(FRONT_MATTER_RULE, line, f"The front matter contains the field `{name}` twice.")
        for name, line in duplicates
    )
    return ParsedFields(fields, tuple(lines.get(name, 1) for name in fields), problems)


def _format_yaml_error(problem: str) -> str:
    return " ".join(problem.replace("`", "'").split())[:160].rstrip(".")


def _find_field_lines(node: yaml.Node | None) -> tuple[dict[str, int], list[tuple[str, int]]]:
    """Returns the line of each field, and the name and line of each duplicate field."""
    lines: dict[str, int] = {}
    duplicates: list[tuple[str, int]] = []
    if isinstance(node, yaml.MappingNode):
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                line = key.start_mark.line + 2
                if key.value in lines:
                    duplicates.append((key.value, line))
                lines[key.value] = line
    return lines, duplicates


def _keep_names_as_written(node: yaml.Node | None) -> None:
    """Makes every name a string, because YAML reads some names as other values: `on` as true, `1` as a number."""
    if isinstance(node, yaml.MappingNode):
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG:
                key.tag = "tag:yaml.org,2002:str"


def _load_toml(inner: str) -> dict[str, Any] | None:
    if any(line.count(".") > MAX_TOML_DOTS_PER_LINE for line in inner.split("\n")):
        return None
    try:
        return tomllib.loads(inner.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return None


def build_field_edit(body: str, name: str, value: str) -> tuple[int, int, str] | None:
    """Returns the edit that adds this field: start, end and replacement; None if the edit is not safe.

    `value` is YAML. A block that cannot be parsed or is not closed, and a field that has a value, are never edited."""
    newline = "\r\n" if "\r\n" in body else "\n"
    matter = parse_front_matter(body)
    if matter is None:
        if is_unclosed(body):
            return None
        return (0, 0, newline.join(("---", f"{name}: {value}", "---", "", "")))
    if not matter.is_editable or not matter.is_missing(name):
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
    if PLAIN_SCALAR_PATTERN.fullmatch(text) and text == text.strip() and _loads_as_itself(text):
        return text
    return str(yaml.safe_dump(text, default_style='"', allow_unicode=True, width=MAX_YAML_LINE_CHARS)).rstrip("\n")


def _loads_as_itself(text: str) -> bool:
    try:
        return bool(load_yaml(f"k: {text}\n") == {"k": text})
    except YAML_ERRORS:
        return False
