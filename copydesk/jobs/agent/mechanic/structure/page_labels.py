"""Finds the labels of a Sphinx page, by which other pages link to its sections, and the titles that they stand for."""

import re

from copydesk.jobs.pages.parsing.rst_references import normalize_name
from copydesk.jobs.pages.site.link_resolver import LinkResolver

LABEL_PATTERN = re.compile(r"(?:\.\. _`?([^:`\n]+)`?:|\(([^()\n]+)\)=)[ \t]*")
MARKDOWN_TITLE_PATTERN = re.compile(r"#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*")
ADORNMENT_PATTERN = re.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*")


def find_own_labels(resolver: LinkResolver, page: str, body: str) -> dict[str, str]:
    """Returns the labels that only this page defines, each with the title of its section, or "" without one."""
    labels = {normalize_name(label) for label in resolver.pages[page].labels} if page in resolver.pages else set()
    for other, facts in resolver.pages.items():
        if other != page and facts.labels and labels:
            labels -= {normalize_name(label) for label in facts.labels}
    titles = _find_titles(body)
    return {label: titles.get(label, "") for label in labels}


def _find_titles(body: str) -> dict[str, str]:
    lines = [line for line in body.replace("\r\n", "\n").split("\n") if line.strip()]
    titles: dict[str, str] = {}
    pending: list[str] = []
    for number, line in enumerate(lines):
        label = LABEL_PATTERN.fullmatch(line)
        if label:
            pending.append(normalize_name(label[1] or label[2]))
        elif pending and not (ADORNMENT_PATTERN.fullmatch(line) and number + 1 < len(lines)):
            heading = MARKDOWN_TITLE_PATTERN.fullmatch(line)
            is_title = number + 1 < len(lines) and ADORNMENT_PATTERN.fullmatch(lines[number + 1])
            title = heading[1] if heading else line.strip() if is_title else ""
            titles.update(dict.fromkeys(pending, title))
            pending = []
    return titles
