"""Front matter: whether it can be read, what it holds, and whether the types are those a generator takes."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from sys import intern
from typing import Any, NamedTuple

import yaml

from copydesk.jobs.checks.parsing.page_facts import Problem
from copydesk.jobs.pages import front_matter as frontmatter

RULE = "front-matter"
OPENING = re.compile(r"---[ \t]*\r?\n[ \t]*[A-Za-z_][\w-]*:(?:[ \t]|\r?\n)")
CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.M)
TEMPLATE = re.compile(r"\{\{|\{%|<%|\$\{")
# What YAML reads as anything but the character itself, or refuses.
SPECIAL = r"\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\uffff"
FIELD = re.compile(
    r"([A-Za-z_][A-Za-z0-9_-]{0,99}): +"
    rf"(?:(?:\"([^\"\\{SPECIAL}]*)\"|'([^'{SPECIAL}]*)'|([1-9][0-9]{{0,8}})) *+|([A-Za-z][^:#{SPECIAL}]*+))\r?\n"
)
INTEGER, BARE = 4, 5
"""The groups of values without quotes."""
CONSTANTS = {
    form: value
    for word, value in {**yaml.constructor.SafeConstructor.bool_values, "null": None}.items()
    for form in (word, word.capitalize(), word.upper())
}

MOST_DOTS = 100
"""Limits the dots in a line of TOML: a name of many parts takes its parser long."""

TEXT = "a text"
NUMBER = "a number"
TRUTH = "true or false"
LIST = "a list"
COMMON = {"title": TEXT, "description": TEXT}
TYPES: dict[str, dict[str, str]] = {
    "docusaurus": {
        **COMMON,
        **dict.fromkeys(("id", "slug", "sidebar_label", "sidebar_class_name", "pagination_label"), TEXT),
        **dict.fromkeys(("tags", "keywords"), LIST),
        **dict.fromkeys(("sidebar_position", "toc_min_heading_level", "toc_max_heading_level"), NUMBER),
        **dict.fromkeys(("draft", "unlisted", "hide_title", "hide_table_of_contents"), TRUTH),
    },
    "mintlify": {
        **COMMON,
        **dict.fromkeys(("sidebarTitle", "tag", "mode", "url", "api", "openapi"), TEXT),
        **dict.fromkeys(("hidden", "noindex", "deprecated"), TRUTH),
        "keywords": LIST,
    },
    "mkdocs": {**COMMON, "tags": LIST},
    "vitepress": {**COMMON, "head": LIST, "features": LIST},
    "sphinx": COMMON,
}


class Matter(NamedTuple):
    fields: Mapping[str, Any]
    readable: bool
    problems: tuple[Problem, ...] = ()
    lines: tuple[int, ...] = ()
    """Of the fields, in their order."""


def read(body: str) -> Matter:
    if body.startswith("+++"):
        return _toml(body)
    if not body.startswith("---"):
        return Matter({}, True)
    match = frontmatter.BLOCK.match(body)
    if match is None:
        if OPENING.match(body) and not CLOSING.search(body, 4):
            return Matter({}, False, (Problem(RULE, 1, "The front matter is never closed with `---`."),))
        return Matter({}, True)
    inner = match["inner"]
    if len(inner) > frontmatter.LONGEST or TEMPLATE.search(inner):
        return Matter({}, False)
    return _flat(inner) or _yaml(inner, looks_meant=bool(frontmatter.KEY.search(inner)))


def _flat(inner: str) -> Matter | None:
    """The same as YAML makes of it, in a tenth of the time, where each line is a name and a plain value."""
    fields: dict[str, Any] = {}
    position = 0
    for match in FIELD.finditer(inner):
        name, form = match[1], match.lastindex or 0
        if match.start() != position or name in fields or name in CONSTANTS:
            return None
        value: Any = match[form]
        if form == BARE:
            value = CONSTANTS.get(text := value.rstrip(" "), text)
        fields[intern(name)] = int(value) if form == INTEGER else _slim(value)
        position = match.end()
    if not fields or position < len(inner):
        return None
    return Matter(fields, True, (), tuple(range(2, 2 + len(fields))))


def _yaml(inner: str, looks_meant: bool) -> Matter:
    try:
        loader = frontmatter.loader_for(inner)(inner)
        node = loader.get_single_node()
        lines, twice = _places(node)
        loaded = loader.construct_document(node) if node is not None else {}
        loader.dispose()
        fields = {str(key): _slim(value) for key, value in loaded.items()} if isinstance(loaded, dict) else None
    except yaml.constructor.ConstructorError:
        return Matter({}, False)  # a tag that only its generator knows
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        said = _sentence(error.problem or "")
        return Matter({}, False, (Problem(RULE, line, f"The front matter is no valid YAML: {said}."),) * looks_meant)
    except frontmatter.UNREADABLE:
        return Matter({}, False)
    if fields is None:
        return Matter({}, not looks_meant)
    problems = tuple(Problem(RULE, line, f"The front matter has the field `{name}` twice.") for name, line in twice)
    return Matter(fields, True, problems, tuple(lines.get(name, 1) for name in fields))


def _slim(value: Any) -> Any:
    """Enough of it to tell its type, and whether it is empty."""
    if isinstance(value, str | list):
        return value[:200] if isinstance(value, str) else value[:1]
    return dict.fromkeys(list(value)[:1]) if isinstance(value, dict) else value


def _sentence(problem: str) -> str:
    return " ".join(problem.replace("`", "'").split())[:160].rstrip(".")


def _places(node: yaml.Node | None) -> tuple[dict[str, int], list[tuple[str, int]]]:
    """The line of each field, and the fields that come a second time."""
    lines: dict[str, int] = {}
    twice: list[tuple[str, int]] = []
    if isinstance(node, yaml.MappingNode):
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                line = key.start_mark.line + 2
                if key.value in lines:
                    twice.append((key.value, line))
                lines[key.value] = line
    return lines, twice


def _toml(body: str) -> Matter:
    match = frontmatter.BLOCK.match(body)
    if match is None or len(match["inner"]) > frontmatter.LONGEST or TEMPLATE.search(match["inner"]):
        return Matter({}, False)
    if any(line.count(".") > MOST_DOTS for line in match["inner"].split("\n")):
        return Matter({}, False)
    try:
        return Matter(tomllib.loads(match["inner"].replace("\r\n", "\n")), True)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return Matter({}, False)


def missing(fields: Mapping[str, Any], required: Sequence[str]) -> Iterator[Problem]:
    for name in required:
        if fields.get(name) in (None, "", []):
            yield Problem(RULE, 1, f"The front matter lacks the field `{name}`.")


def wrong_types(kind: str, fields: Mapping[str, Any], lines: Sequence[int]) -> Iterator[Problem]:
    types = TYPES.get(kind, {})
    for (name, value), line in zip(fields.items(), lines, strict=False):
        if value is not None and (wanted := types.get(name)) and not _fits(value, wanted):
            yield Problem(RULE, line, f"The field `{name}` of the front matter must be {wanted}.")


def _fits(value: Any, wanted: str) -> bool:
    """As forgiving as the generators are: a number is a text, and "3" a number."""
    if wanted == TEXT:
        return isinstance(value, str | int | float | date) and not isinstance(value, bool)
    if wanted == NUMBER:
        return isinstance(value, int | float) or (isinstance(value, str) and _is_number(value))
    if wanted == TRUTH:
        return isinstance(value, bool) or value in ("true", "false", "True", "False")
    return isinstance(value, list)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
