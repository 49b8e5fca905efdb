"""The community list `crawler-user-agents`, for agents that our table does not have."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from copydesk.analytics.page_view import VisitorClass

REGEX_SYNTAX_PATTERN = re.compile(r"(?<!\\)[\[\](){}.*+?|^$]|\\[a-zA-Z]")
CRAWLER_LIST_NAME = "crawler-user-agents"
LIBRARY_TAG = "http-library"
CLASS_BY_TAG = {"search-engine": VisitorClass.SEARCH, "ai-crawler": VisitorClass.TRAINING}
"""The list has one tag for all AI crawlers; only our table distinguishes assistants from training crawlers."""


class CrawlerList:
    """The patterns of the list.

    Most are plain text, and a substring search is much faster than a regular expression.
    """

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        self._substrings: list[tuple[str, VisitorClass]] = []
        self._patterns: list[tuple[re.Pattern[str], VisitorClass]] = []
        for entry in entries:
            tags = entry.get("tags", ())
            pattern = entry["pattern"]
            if LIBRARY_TAG in tags:
                continue
            kind = next((CLASS_BY_TAG[tag] for tag in tags if tag in CLASS_BY_TAG), VisitorClass.OTHER)
            if REGEX_SYNTAX_PATTERN.search(pattern):
                self._patterns.append((re.compile(pattern), kind))
            else:
                self._substrings.append((pattern.replace("\\", ""), kind))

    def __call__(self, user_agent: str) -> VisitorClass | None:
        for substring, kind in self._substrings:
            if substring in user_agent:
                return kind
        for pattern, kind in self._patterns:
            if pattern.search(user_agent):
                return kind
        return None


@cache
def load_crawler_list() -> CrawlerList:
    """Loads the installed list at the first call."""
    from crawleruseragents import CRAWLER_USER_AGENTS_DATA  # type: ignore[import-untyped]

    return CrawlerList(CRAWLER_USER_AGENTS_DATA)
