"""Finds a word or phrase as a whole, and writes the other one in the case it was found in."""

import re

from copydesk.jobs.pages.lines import VISIBLE

GAP = r"(?:[ \t]+|[ \t]*\r?\n[ \t>]*)"


class Wording:
    """A new text in lower case takes over the case it meets; any other is meant exactly as given."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new
        self.keeps_case = new == new.lower() and any(c.isalpha() for c in new)
        words = old.split()
        before = r"(?<!\w)" if words[0][0].isalnum() else ""
        after = r"(?!\w)" if words[-1][-1].isalnum() else ""
        flags = re.I if self.keeps_case else 0
        self._pattern = re.compile(before + GAP.join(map(re.escape, words)) + after, flags)
        self._piece = words[0].lower().encode()

    def may_occur(self, data: bytes) -> bool:
        return not self._piece.isascii() or self._piece in data.lower()

    def occurrences(self, body: str, visible: str) -> tuple[list[tuple[int, int, str]], int]:
        """The edits, and how many occurrences are broken across lines in a way that the new text cannot be.

        `visible` is the body with spaces for what must stay; an occurrence counts only where all of it is visible."""
        edits, broken = [], 0
        for match in self._pattern.finditer(body):
            start, end = match.span()
            if visible[start:end] != match.group() or not VISIBLE.search(match.group()):
                continue
            new = self._fitting(match.group())
            if new is None:
                broken += "\n" in match.group()
            elif new != match.group():
                edits.append((start, end, new))
        return edits, broken

    def _fitting(self, found: str) -> str | None:
        gap = re.search(r"(?<![ \t])[ \t]*\r?\n[ \t>]*", found)
        new = self._in_case(" ".join(re.split(GAP, found))) if self.keeps_case else self.new
        if new is None or gap is None:
            return new
        return new.replace(" ", gap.group(), 1) if " " in new else None

    def _in_case(self, found: str) -> str | None:
        """None for a spelling that is neither the one asked for nor a usual one: it may be another name."""
        if found == self.old and any(c.isupper() for c in found[1:]) and not found.istitle():
            return self.new
        if found.islower() or not any(c.isalpha() for c in found):
            return self.new
        if found.isupper() and sum(map(str.isalpha, found)) > 1:
            return self.new.upper()
        if found[0].isupper() and not any(c.isupper() for c in found[1:]):
            return self.new[0].upper() + self.new[1:]
        if " " in found and all(word[0].isupper() and not word[1:].isupper() for word in found.split()):
            return " ".join(word[0].upper() + word[1:] for word in self.new.split(" "))
        return self.new if found == self.old else None
