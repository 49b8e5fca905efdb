"""Decides whether a page has an anchor. Each generator has different rules to generate anchors from headings."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from copydesk.jobs.pages.parsing.headings import (
    SLUGIFIERS,
    find_repeat_separator,
    normalize_letters,
    slugify_github,
    strip_markup,
)
from copydesk.jobs.pages.parsing.page_facts import PageFacts

# Anchors of the page layout and of footnotes, which are not in the page's text.
FRAME_ANCHOR_PATTERN = re.compile(
    r"(?:top|main|main-content|content|__.*|fn(?:ref)?[:\d-].*|user-content-.*|L\d+.*|page=\d+.*)$"
)
REPEAT_NUMBER_PATTERN = re.compile(r"[-_]\d+$")
PARAMETER_PREFIX_PATTERN = re.compile(r"(?:param|response|body|header|query|path)-")
# Generators render headings with these characters differently before they generate the anchor.
MARKED_UP_HEADING_PATTERN = re.compile(r"[<>{}\[\]\\*_]|&#?\w+;|:\w+:|[^\x00-\x7f]")
PLAIN_HEADING_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9]*(?: [A-Za-z0-9]+)*")
HTML_ELEMENT_PATTERN = re.compile(r"<[^<>]*>[^<>]*</[^<>]*>")


class PageAnchors:
    """The anchors of one page. Sets that are rarely needed are computed on first use."""

    def __init__(self, generator: str | None, facts: PageFacts) -> None:
        """`generator` is None if the rules for anchors are unknown; then only letters and digits are compared."""
        self._facts = facts
        self._slugify = SLUGIFIERS.get(generator or "")
        self._explicit_ids = frozenset(facts.explicit_ids)

    def has(self, anchor: str) -> bool:
        if anchor in self._explicit_ids or anchor in self._slug_counts or FRAME_ANCHOR_PATTERN.match(anchor):
            return True
        if self._repeats_heading(anchor):
            return True
        unnumbered = REPEAT_NUMBER_PATTERN.sub("", anchor)
        return not self._known_letters.isdisjoint(
            map(normalize_letters, (anchor, unnumbered, PARAMETER_PREFIX_PATTERN.sub("", anchor)))
        )

    def _repeats_heading(self, anchor: str) -> bool:
        """Returns whether a repeated heading has this anchor: the first one has no number, the second has 1."""
        slug, _, number = anchor.rpartition(find_repeat_separator(self._slugify))
        count = self._slug_counts[slug] + (slug in self._explicit_ids)
        if count < 2 or not (number.isascii() and number.isdigit()):
            return False
        return bool(self._facts.text_includes) or 0 < int(number) < count  # included text may repeat a heading too

    def find_similar(self, anchor: str) -> list[str]:
        """Returns the anchors that have the same letters and digits as this one."""
        return self._anchors_by_letters.get(normalize_letters(anchor), [])

    @cached_property
    def _anchors_by_letters(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for anchor in self.exact_anchors:
            groups.setdefault(normalize_letters(anchor), []).append(anchor)
        return groups

    @cached_property
    def exact_anchors(self) -> frozenset[str]:
        """Returns the anchors of all headings and IDs, as GitHub generates them if the rules are unknown."""
        slugify = self._slugify or slugify_github
        separator = find_repeat_separator(slugify)
        counts: Counter[str] = Counter()
        anchors = list(self._facts.explicit_ids)
        for text in self._facts.headings:
            anchor = slugify(text)
            anchors.append(f"{anchor}{separator}{counts[anchor]}" if counts[anchor] else anchor)
            counts[anchor] += 1
        return frozenset(anchors)

    @cached_property
    def _slug_counts(self) -> Counter[str]:
        if self._slugify is None:
            return Counter()
        slugify = self._slugify
        return Counter(
            _slugify_words(text) if PLAIN_HEADING_PATTERN.fullmatch(text) else slugify(text)
            for text in self._facts.headings
        )

    @cached_property
    def _known_letters(self) -> frozenset[str]:
        """Returns the letters of all texts that may become anchors by unknown rules."""
        texts: Iterable[str] = (*self._facts.headings, *self._facts.explicit_ids)
        if self._slugify:
            texts = (text for text in self._facts.headings if MARKED_UP_HEADING_PATTERN.search(text))
        title = self._facts.fields.get("title")
        texts = (*texts, *self._facts.component_titles, title if isinstance(title, str) else "")
        return frozenset(
            normalize_letters(each)
            for text in texts
            for each in (text, strip_markup(text), HTML_ELEMENT_PATTERN.sub("", text), _drop_other_letters(text))
        )


def _slugify_words(text: str) -> str:
    """Returns the anchor of a heading of plain words, which is the same for every generator."""
    return text.lower().replace(" ", "-")


def _drop_other_letters(text: str) -> str:
    """Removes the letters that some generators leave out of an anchor."""
    return text if text.isascii() else text.encode("ascii", "ignore").decode()
