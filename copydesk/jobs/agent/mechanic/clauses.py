"""A prompt as single orders: quotations set aside, courtesies dropped, "and then" taken apart."""

import re
from dataclasses import dataclass, field

QUOTATION = re.compile(
    r"“([^”\n]*)”|„([^“”\n]*)[“”]|«([^»\n]*)»|\"([^\"\n]*)\"|(?<!`)`([^`\n]+)`(?!`)|‘([^’\n]*)’(?!\w)|(?<!\w)'([^'\n]+)'(?!\w)"
)
SPACES = re.compile(r"[^\S\n]+")
HELD = "\ue000{}\ue001"
HELD_PATTERN = "\ue000\\d+\ue001"
VERBS = (
    r"(?:replac|chang|renam|mov|substitut|swap|us|fix|repair|correct|add|insert|remov|delet|strip|trim|clean|convert|turn"
    r"|fill|giv|ensur|mak|normali[sz]|tidy|updat|find|get)(?:e|es)?"
)
POLITE = re.compile(
    r"(?:(?:hi|hey|hello)(?: there)?[,!]?\s+|please,?\s+|kindly\s+|just\s+|now,?\s+"
    r"|(?:first(?:ly)?|finally|then|also),?\s+|(?:can|could|would|will) you\s+"
    r"|(?:i|we)(?: would|'d|’d)? (?:want|need|like)(?: you)? to\s+|let(?:'|’)?s\s+"
    r"|(?:go|look) through (?:all |the )*(?:docs|documentation|pages|files) and\s+)+",
    re.I,
)
THANKS = re.compile(
    r"(?<![\s,])[\s,]*+\b(?:please|thanks(?: a lot| in advance)?|thank you(?: very much)?|thx|for me|for us)[\s.!]*$",
    re.I,
)
HEADER = re.compile(r"(?:please\s+)?(?:do|make|apply|carry out)\s+(?:the following|these)(?:\s+\w+)?\s*[:.]?$", re.I)
BULLET = re.compile(r"^\s*(?:[-*•–]|\d{1,3}[.)])\s+")
ORDER = rf"(?:please\s+)?{VERBS}\s+\S"
BOUNDARY = re.compile(
    rf"\s*;\s*|[.!]\s+(?=\S)|,?\s+(?:and\s+)?(?:then|afterwards|after that|finally|also),?\s+(?={ORDER})"
    rf"|,?\s+and\s+(?={ORDER})|,\s+(?={ORDER})",
    re.I,
)
RENAMING = re.compile(r"(?:\W*+(?:please|can you|could you)\s++)*+(?:rename|move)\b", re.I)
FIND_AND = re.compile(
    r"\b(?:find|search for|look for)\s+(?P<what>(?:(?!\band\b).)+?)\s+and\s+(?:replace|change)"
    r"\s+(?:it|them|all|each|every one)?\s*(?P<by>with|by|to)\b",
    re.I,
)
PLACE_FIRST = re.compile(rf"(?P<where>(?:in|on|across|throughout|for)\s[^,]+?),?\s+(?P<order>{ORDER}.*)", re.I)
FIND_AND_FIX = re.compile(r"\b(?:find|check for|check|look for|detect)\s+and\s+(?=fix|repair|correct|remove)", re.I)
MENTIONS = r"(?:links?|references?|navigation|nav|sidebar)"
WITH_ITS_LINKS = re.compile(
    r"(?:,?\s*and|,)\s*(?:also\s+)?(?:update|fix|adjust|correct|change|keep|rewrite)\s+(?:(?:all|the|its|any|every)\s+)*"
    rf"(?:internal\s+)?{MENTIONS}(?:\s+(?:to|that point to|pointing to)\s+(?:it|the page))?"
    rf"(?:(?:\s*,\s*|\s+and\s+)(?:the\s+|all\s+)?{MENTIONS}(?:\s+(?:to|pointing to)\s+it)?)*"
    r"(?:\s+(?:accordingly|working|entr(?:y|ies)|as well|too|in the navigation))*(?=\s*(?:[.;,\n]|$|and\b))",
    re.I,
)


@dataclass
class Quotations:
    """Quoted text is set aside while the sentence around it is read."""

    held: list[str] = field(default_factory=list)

    def hold(self, text: str) -> str:
        """Returns the text with marks for its quotations, and single spaces: patterns are slow over many in a row."""
        return SPACES.sub(" ", QUOTATION.sub(self._hold_one, text))

    def _hold_one(self, match: re.Match[str]) -> str:
        self.held.append(next(group for group in match.groups() if group is not None))
        return HELD.format(len(self.held) - 1)

    def value(self, text: str) -> str:
        """What was quoted, or the bare words."""
        return self.held[int(text[1:-1])] if is_held(text) else text

    def released(self, text: str) -> str:
        return re.sub(HELD_PATTERN, lambda match: f"“{self.value(match.group())}”", text)


def is_held(text: str) -> bool:
    return re.fullmatch(HELD_PATTERN, text) is not None


def clauses(held: str) -> list[str]:
    """One order each. Quotations must have been set aside, or their words would be taken apart too."""
    text = FIND_AND.sub(r"replace \g<what> \g<by>", held)
    text = FIND_AND_FIX.sub("", text)
    found: list[str] = []
    for line in text.split("\n"):
        line = BULLET.sub("", line).strip()
        if RENAMING.match(line):
            line = WITH_ITS_LINKS.sub("", line)
        place = PLACE_FIRST.fullmatch(line)
        if place and not BOUNDARY.search(place["order"].rstrip(".! ")):
            line = f"{place['order'].rstrip('.! ')} {place['where']}"
        found += [clause for part in BOUNDARY.split(line) if (clause := _bare(part))]
    return found


def _bare(clause: str) -> str:
    clause = clause.strip(" \t\r,.!…:") if not clause.endswith("/") else clause.strip()
    while (shorter := THANKS.sub("", clause)) != clause:
        clause = shorter
    clause = POLITE.sub("", clause, count=1) if POLITE.match(clause) else clause
    return "" if HEADER.fullmatch(clause) else clause.strip().rstrip(".!?,")
