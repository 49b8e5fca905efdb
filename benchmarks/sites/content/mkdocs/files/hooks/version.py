"""Writes the version of Tidewater into the pages."""

from typing import Any

VERSION = "2.4"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace("{{ version }}", VERSION)
