"""Checks that front matter is complete, and that its fields have the generator's types."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from copydesk.jobs.pages.parsing.front_matter import FRONT_MATTER_RULE, is_empty
from copydesk.jobs.pages.parsing.page_facts import PageProblem

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


def find_missing_fields(fields: Mapping[str, Any], required: Sequence[str]) -> Iterator[PageProblem]:
    for name in required:
        if is_empty(fields.get(name)):
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
