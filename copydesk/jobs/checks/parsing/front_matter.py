"""Parses front matter and checks that it is valid and complete, and that its fields have the generator's types."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from sys import intern
from typing import Any, NamedTuple

import yaml

from copydesk.jobs.checks.parsing.page_facts import PageProblem
from copydesk.jobs.pages import front_matter

FRONT_MATTER_RULE = "front-matter"
OPENING_PATTERN = re.compile(r"---[ \t]*\r?\n[ \t]*[A-Za-z_][\w-]*:(?:[ \t]|\r?\n)")
CLOSING_PATTERN = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.M)
TEMPLATE_PATTERN = re.compile(r"\{\{|\{%|<%|\$\{")
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

MAX_TOML_DOTS_PER_LINE = 100
"""Limits the dots in a line of TOML, because its parser is slow for names of many parts."""

TEXT = "a string"
NUMBER = "a number"
BOOLEAN = "true or false"
LIST = "a list"
COMMON_FIELDS = {"title": TEXT, "description": TEXT}
FIELD_TYPES: dict[str, dict[str, str]] = {
    "docusaurus": {
        **COMMON_FIELDS,
        **dict.fromkeys(("id", "slug", "sidebar_label", "sidebar_class_name", "pagination_label"), TEXT),
        **dict.fromkeys(("tags", "keywords"), LIST),
        **dict.fromkeys(("sidebar_position", "toc_min_heading_level", "toc_max_heading_level"), NUMBER),
        **dict.fromkeys(("draft", "unlisted", "hide_title", "hide_table_of_contents"), BOOLEAN),
    },
    "mintlify": {
        **COMMON_FIELDS,
        **dict.fromkeys(("sidebarTitle", "tag", "mode", "url", "api", "openapi"), TEXT),
        **dict.fromkeys(("hidden", "noindex", "deprecated"), BOOLEAN),
        "keywords": LIST,
    },
    "mkdocs": {**COMMON_FIELDS, "tags": LIST},
    "vitepress": {**COMMON_FIELDS, "head": LIST, "features": LIST},
    "sphinx": COMMON_FIELDS,
}


class ParsedFrontMatter(NamedTuple):
    fields: Mapping[str, Any]
    is_readable: bool
    problems: tuple[PageProblem, ...] = ()
    field_lines: tuple[int, ...] = ()
    """Line numbers of `fields`, in the same order."""


def parse_front_matter(body: str) -> ParsedFrontMatter:
    if body.startswith("+++"):
        return _parse_toml(body)
    if not body.startswith("---"):
        return ParsedFrontMatter({}, True)
    match = front_matter.FRONT_MATTER_PATTERN.match(body)
    if match is None:
        if OPENING_PATTERN.match(body) and not CLOSING_PATTERN.search(body, 4):
            return ParsedFrontMatter(
                {}, False, (PageProblem(FRONT_MATTER_RULE, 1, "The front matter has no closing `---`."),)
            )
        return ParsedFrontMatter({}, True)
    inner = match["inner"]
    if len(inner) > front_matter.MAX_FRONT_MATTER_CHARS or TEMPLATE_PATTERN.search(inner):
        return ParsedFrontMatter({}, False)
    return _parse_flat(inner) or _parse_yaml(inner, looks_like_fields=bool(front_matter.KEY_PATTERN.search(inner)))


def _parse_flat(inner: str) -> ParsedFrontMatter | None:
    """Parses front matter in which each line is a name and a plain value; returns None for any other.

    The result is the same as that of the YAML parser, which is much slower.
    """
    fields: dict[str, Any] = {}
    position = 0
    for match in FLAT_FIELD_PATTERN.finditer(inner):
        name, group = match[1], match.lastindex or 0
        if match.start() != position or name in fields or name in YAML_CONSTANTS:
            return None
        value: Any = match[group]
        if group == BARE_GROUP:
            value = YAML_CONSTANTS.get(text := value.rstrip(" "), text)
        fields[intern(name)] = int(value) if group == INTEGER_GROUP else _shorten_value(value)
        position = match.end()
    if not fields or position < len(inner):
        return None
    return ParsedFrontMatter(fields, True, (), tuple(range(2, 2 + len(fields))))


def _parse_yaml(inner: str, looks_like_fields: bool) -> ParsedFrontMatter:
    try:
        loader = front_matter.choose_loader(inner)(inner)
        node = loader.get_single_node()
        lines, duplicates = _find_field_lines(node)
        loaded = loader.construct_document(node) if node is not None else {}
        loader.dispose()
        fields = (
            {str(key): _shorten_value(value) for key, value in loaded.items()} if isinstance(loaded, dict) else None
        )
    except yaml.constructor.ConstructorError:
        return ParsedFrontMatter({}, False)  # a custom tag that only the generator knows
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        reason = _format_yaml_error(error.problem or "")
        return ParsedFrontMatter(
            {},
            False,
            (PageProblem(FRONT_MATTER_RULE, line, f"The front matter is not valid YAML: {reason}."),)
            * looks_like_fields,
        )
    except front_matter.YAML_ERRORS:
        return ParsedFrontMatter({}, False)
    if fields is None:
        return ParsedFrontMatter({}, not looks_like_fields)
    problems = tuple(
        PageProblem(FRONT_MATTER_RULE, line, f"The front matter contains the field `{name}` twice.")
        for name, line in duplicates
    )
    return ParsedFrontMatter(fields, True, problems, tuple(lines.get(name, 1) for name in fields))


def _shorten_value(value: Any) -> Any:
    """Shortens a value. Only its type and whether it is empty matter."""
    if isinstance(value, str | list):
        return value[:200] if isinstance(value, str) else value[:1]
    return dict.fromkeys(list(value)[:1]) if isinstance(value, dict) else value


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


def _parse_toml(body: str) -> ParsedFrontMatter:
    match = front_matter.FRONT_MATTER_PATTERN.match(body)
    if (
        match is None
        or len(match["inner"]) > front_matter.MAX_FRONT_MATTER_CHARS
        or TEMPLATE_PATTERN.search(match["inner"])
    ):
        return ParsedFrontMatter({}, False)
    if any(line.count(".") > MAX_TOML_DOTS_PER_LINE for line in match["inner"].split("\n")):
        return ParsedFrontMatter({}, False)
    try:
        return ParsedFrontMatter(tomllib.loads(match["inner"].replace("\r\n", "\n")), True)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return ParsedFrontMatter({}, False)


def find_missing_fields(fields: Mapping[str, Any], required: Sequence[str]) -> Iterator[PageProblem]:
    for name in required:
        if fields.get(name) in (None, "", []):
            yield PageProblem(FRONT_MATTER_RULE, 1, f"The front matter is missing the field `{name}`.")


def find_wrong_types(generator: str, fields: Mapping[str, Any], lines: Sequence[int]) -> Iterator[PageProblem]:
    types = FIELD_TYPES.get(generator, {})
    for (name, value), line in zip(fields.items(), lines, strict=False):
        if value is not None and (expected_type := types.get(name)) and not _has_type(value, expected_type):
            yield PageProblem(FRONT_MATTER_RULE, line, f"The front matter field `{name}` must be {expected_type}.")


def _has_type(value: Any, expected_type: str) -> bool:
    """Returns whether a value has a type. As lenient as the generators: 3 is also a string, and "3" also a number."""
    if expected_type == TEXT:
        return isinstance(value, str | int | float | date) and not isinstance(value, bool)
    if expected_type == NUMBER:
        return isinstance(value, int | float) or (isinstance(value, str) and _is_number(value))
    if expected_type == BOOLEAN:
        return isinstance(value, bool) or value in ("true", "false", "True", "False")
    return isinstance(value, list)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
