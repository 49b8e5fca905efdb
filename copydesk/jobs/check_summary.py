"""Says in words what the checks of a job have judged, from the entries of the API."""

from collections.abc import Iterable, Mapping
from typing import Any

from copydesk.core.text.plurals import pluralize

COMMAND_CHECK = "command"
"""The name of the entry for the project's check command."""
ITEM_NOUNS: Mapping[str, tuple[str, str]] = {
    "link": ("link", ""),
    "anchor": ("anchor", ""),
    "image": ("image", ""),
    "include": ("included file", ""),
    "front-matter": ("front-matter field", ""),
    "mdx": ("MDX page", ""),
    "fence": ("page with code fences", "pages with code fences"),
    "navigation": ("navigation entry", "navigation entries"),
    "orphan": ("page for the navigation", "pages for the navigation"),
    "unknown-name": ("name", ""),
}
"""What each rule judges, with its plural if that is not the noun and an s."""


def describe_passed(checks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns what the checks that passed have judged, such as "3 links", from the entries of the API."""
    return [_describe(entry) for entry in checks if entry["status"] == "passed"]


def _describe(entry: Mapping[str, Any]) -> str:
    if entry["name"] == COMMAND_CHECK:
        return "the check command"
    noun, plural = ITEM_NOUNS.get(entry["name"], (entry["name"], ""))
    return pluralize(entry["judged"], noun, plural)
