"""Finds whole words or phrases, and writes their replacement in the case of each occurrence."""

import re
from collections.abc import Iterator

from copydesk.jobs.pages.lines import NON_NEWLINE_PATTERN

MAX_NEAR_CHARS = 40
"""How much longer than the phrase a word may be that contains it."""
GAP_PATTERN = r"(?:[ \t]+|[ \t]*\r?\n[ \t>]*)"


class PhraseMatcher:
    """Finds a phrase. A lower-case replacement takes over the case of each occurrence; any other is used as given."""

    def __init__(self, old: str, new: str) -> None:
        self.old = old
        self.new = new
        self.preserves_case = new == new.lower() and any(c.isalpha() for c in new)
        words = old.split()
        before = r"(?<!\w)" if words[0][0].isalnum() else ""
        after = r"(?!\w)" if words[-1][-1].isalnum() else ""
        flags = re.I if self.preserves_case else 0
        self._pattern = re.compile(before + GAP_PATTERN.join(map(re.escape, words)) + after, flags)
        self._part_pattern = re.compile(GAP_PATTERN.join(map(re.escape, words)), re.I)
        self._first_word = words[0].lower().encode()

    def may_occur(self, data: bytes) -> bool:
        return not self._first_word.isascii() or self._first_word in data.lower()

    def find_edits(self, body: str, visible: str) -> tuple[list[tuple[int, int, str]], int]:
        """Returns the edits, and the number of occurrences with a line break that the new text has no space for.

        `visible` is the body with spaces in place of protected text. An occurrence counts only if all of it is visible.
        """
        edits = []
        split_count = 0
        for match in self._pattern.finditer(body):
            start, end = match.span()
            if visible[start:end] != match.group() or not NON_NEWLINE_PATTERN.search(match.group()):
                continue
            new = self._fit_replacement(match.group())
            if new is None:
                split_count += "\n" in match.group()
            elif new != match.group():
                edits.append((start, end, new))
        return edits, split_count

    def find_near_matches(self, body: str, visible: str) -> Iterator[str]:
        """Yields the words that contain the phrase and are not it: a plural, a compound, or another case.

        Extends each occurrence to the whole word, instead of a pattern for words, which is slow on long ones.
        """
        exact_spans = {match.span() for match in self._pattern.finditer(body)}
        for match in self._part_pattern.finditer(body):
            if match.span() in exact_spans or visible[match.start() : match.end()] != match.group():
                continue
            start, end = match.span()
            while start > 0 and match.start() - start < MAX_NEAR_CHARS and _is_word_character(body[start - 1]):
                start -= 1
            while end < len(body) and end - match.end() < MAX_NEAR_CHARS and _is_word_character(body[end]):
                end += 1
            yield " ".join(body[start:end].split())

    def _fit_replacement(self, matched: str) -> str | None:
        gap = re.search(r"(?<![ \t])[ \t]*\r?\n[ \t>]*", matched)
        new = self._match_case(" ".join(re.split(GAP_PATTERN, matched))) if self.preserves_case else self.new
        if new is None or gap is None:
            return new
        return new.replace(" ", gap.group(), 1) if " " in new else None

    def _match_case(self, matched: str) -> str | None:
        """Returns the new text in the case of the match.

        Returns None when the case is neither the one in the prompt nor a usual one: it may be another name.
        """
        if matched == self.old and any(c.isupper() for c in matched[1:]) and not matched.istitle():
            return self.new
        if matched.islower() or not any(c.isalpha() for c in matched):
            return self.new
        if matched.isupper() and sum(map(str.isalpha, matched)) > 1:
            return self.new.upper()
        if matched[0].isupper() and not any(c.isupper() for c in matched[1:]):
            return self.new[0].upper() + self.new[1:]
        if " " in matched and all(word[0].isupper() and not word[1:].isupper() for word in matched.split()):
            return " ".join(word[0].upper() + word[1:] for word in self.new.split(" "))
        return self.new if matched == self.old else None


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"
