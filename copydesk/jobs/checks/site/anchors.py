"""Whether a page has an anchor: each generator makes them of headings in its own way."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property

from copydesk.core.text.normal_forms import normalize
from copydesk.jobs.checks.parsing.page_facts import Facts
from copydesk.jobs.pages.headings import plain_text

# Made by every page's frame or by footnotes, not by its text.
FRAME = re.compile(r"(?:top|main|main-content|content|__.*|fn(?:ref)?[:\d-].*|user-content-.*|L\d+.*|page=\d+.*)$")
REPEATED = re.compile(r"[-_]\d+$")
PREFIX = re.compile(r"(?:param|response|body|header|query|path)-")
# A heading with these is rendered before its anchor is made, in ways that differ.
TANGLED = re.compile(r"[<>{}\[\]\\*_]|&#?\w+;|:\w+:|[^\x00-\x7f]")
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9]*(?: [A-Za-z0-9]+)*")
ELEMENT = re.compile(r"<[^<>]*>[^<>]*</[^<>]*>")
VITEPRESS = re.compile(r"[\s~`!@#$%^&*()\-_+=\[\]{}|\\;:\"'“”‘’<>,.?/]+")


class Anchors:
    """Of one page. What is rarely asked for is made when it is."""

    def __init__(self, kind: str | None, facts: Facts) -> None:
        """`kind` is None where the way anchors are made is not known; then only letters and digits are compared."""
        self._facts = facts
        self._slug = SLUGS.get(kind or "")
        self._plain = frozenset(facts.anchors)

    def has(self, anchor: str) -> bool:
        if anchor in self._plain or self._facts.open_ended or anchor in self._slugs or FRAME.match(anchor):
            return True
        unnumbered = REPEATED.sub("", anchor)
        if self._slugs[unnumbered] > 1:
            return True
        return not self._letters.isdisjoint(map(letters, (anchor, unnumbered, PREFIX.sub("", anchor))))

    @cached_property
    def _slugs(self) -> Counter[str]:
        if self._slug is None:
            return Counter()
        slug = self._slug
        return Counter(_plain(text) if PLAIN.fullmatch(text) else slug(text) for text in self._facts.headings)

    @cached_property
    def _letters(self) -> frozenset[str]:
        """Of all texts that may become anchors in a way that is not known."""
        texts: Iterable[str] = (*self._facts.headings, *self._facts.anchors)
        if self._slug:
            texts = (text for text in self._facts.headings if TANGLED.search(text))
        title = self._facts.fields.get("title")
        texts = (*texts, *self._facts.names, title if isinstance(title, str) else "")
        return frozenset(letters(each) for text in texts for each in (text, plain_text(text), ELEMENT.sub("", text)))


def letters(text: str) -> str:
    """What no way of making anchors drops: letters and digits, without accents and case."""
    if text.isascii():
        return "".join(c for c in text.lower() if c.isalnum())
    return "".join(c for c in normalize("NFKD", text).casefold() if c.isalnum())


def _plain(text: str) -> str:
    """Of words alone every generator makes the same."""
    return text.lower().replace(" ", "-")


def _mkdocs(text: str) -> str:
    text = normalize("NFKD", plain_text(text)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def _vitepress(text: str) -> str:
    text = VITEPRESS.sub("-", normalize("NFKD", plain_text(text)))
    text = re.sub(r"^-+|-+$", "", re.sub(r"-{2,}", "-", text)).lower()
    return f"_{text}" if text[:1].isdigit() else text


def _github(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", plain_text(text).strip().lower()).replace(" ", "-")


SLUGS: dict[str, Callable[[str], str]] = {"docusaurus": _github, "mkdocs": _mkdocs, "vitepress": _vitepress}
