"""A second opinion on agents that our own table does not know: the list `crawler-user-agents`, kept by many hands."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from copydesk.analytics.page_view import Class

META = re.compile(r"(?<!\\)[\[\](){}.*+?|^$]|\\[a-zA-Z]")
NAME = "crawler-user-agents"
A_LIBRARY = "http-library"
KINDS = {"search-engine": Class.SEARCH, "ai-crawler": Class.TRAINING}
"""The list has one word for all of AI; that a crawler of its is an assistant, only our own table says."""


class Opinions:
    """The patterns of the list. Most are plain text, and looking for text costs a tenth of a regular expression."""

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        self._texts: list[tuple[str, Class]] = []
        self._patterns: list[tuple[re.Pattern[str], Class]] = []
        for entry in entries:
            tags, pattern = entry.get("tags", ()), entry["pattern"]
            if A_LIBRARY in tags:
                continue
            kind = next((KINDS[tag] for tag in tags if tag in KINDS), Class.OTHER)
            if META.search(pattern):
                self._patterns.append((re.compile(pattern), kind))
            else:
                self._texts.append((pattern.replace("\\", ""), kind))

    def __call__(self, agent: str) -> Class | None:
        for text, kind in self._texts:
            if text in agent:
                return kind
        for pattern, kind in self._patterns:
            if pattern.search(agent):
                return kind
        return None


@cache
def opinions() -> Opinions:
    """The installed list, read when first needed."""
    from crawleruseragents import CRAWLER_USER_AGENTS_DATA  # type: ignore[import-untyped]

    return Opinions(CRAWLER_USER_AGENTS_DATA)
