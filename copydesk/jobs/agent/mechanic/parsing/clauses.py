"""Splits a prompt into single commands: extracts quotations, removes courtesies, splits at "and then"."""

import re
from dataclasses import dataclass, field

QUOTATION_PATTERN = re.compile(
    r"“([^”\n]*)”|„([^“”\n]*)[“”]|«([^»\n]*)»|\"([^\"\n]*)\"|(?<!`)`([^`\n]+)`(?!`)|‘([^’\n]*)’(?!\w)|(?<!\w)'([^'\n]+)'(?!\w)"
)
SPACES_PATTERN = re.compile(r"[^\S\n]+")
PLACEHOLDER = "\ue000{}\ue001"
PLACEHOLDER_PATTERN = "\ue000\\d+\ue001"
VERB = (
    r"(?:replac|chang|renam|mov|substitut|swap|us|fix|repair|correct|add|insert|remov|delet|strip|trim|clean|convert|turn"
    r"|fill|giv|ensur|mak|normali[sz]|tidy|updat|find|get|set)(?:e|es)?"
)
POLITE_OPENING_PATTERN = re.compile(
    r"(?:(?:hi|hey|hello)(?: there)?[,!]?\s+|please,?\s+|kindly\s+|just\s+|now,?\s+"
    r"|(?:first(?:ly)?|finally|then|also),?\s+|(?:can|could|would|will) you\s+"
    r"|(?:i|we)(?: would|'d|’d)? (?:want|need|like)(?: you)? to\s+|let(?:'|’)?s\s+"
    r"|(?:go|look) through (?:all |the )*(?:docs|documentation|pages|files) and\s+)+",
    re.I,
)
THANKS_PATTERN = re.compile(
    r"(?<![\s,])[\s,]*+\b(?:please|thanks(?: a lot| in advance)?|thank you(?: very much)?|thx|for me|for us)[\s.!]*$",
    re.I,
)
LIST_HEADER_PATTERN = re.compile(
    r"(?:please\s+)?(?:do|make|apply|carry out)\s+(?:the following|these)(?:\s+\w+)?\s*[:.]?$", re.I
)
BULLET_PATTERN = re.compile(r"^\s*(?:[-*•–]|\d{1,3}[.)])\s+")
COMMAND = rf"(?:please\s+)?{VERB}\s+\S"
CLAUSE_BOUNDARY_PATTERN = re.compile(
    rf"\s*;\s*|[.!]\s+(?=\S)|,?\s+(?:and\s+)?(?:then|afterwards|after that|finally|also),?\s+(?={COMMAND})"
    rf"|,?\s+and\s+(?={COMMAND})|,\s+(?={COMMAND})",
    re.I,
)
DELETE_OPENING_PATTERN = re.compile(
    r"(?:\W*+(?:please|can you|could you)\s++)*+(?:delete|remove|drop|get rid of)\b", re.I
)
MENU_NOUN = r"(?:links?|references?|(?:navigation|nav|sidebar|menu)(?:\s+(?:entry|entries|items?))?|entry|entries)"
DELETE_LINKS_PATTERN = re.compile(
    r"(?:,?\s*(?:and|with|including|together with)|,)\s*(?:also\s+)?"
    r"(?:(?:remove|delete|drop|update|fix|clean\s+up)\s+)?"
    rf"(?:(?:all|the|its|any|every|also)\s+)*(?:internal\s+)?{MENU_NOUN}(?:\s+(?:to|that\s+(?:point|lead)\s+to|pointing\s+to)\s+(?:it|the\s+page))?"
    rf"(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+)(?:(?:all|the|its|any)\s+)*{MENU_NOUN}(?:\s+(?:to|pointing\s+to)\s+it)?)*"
    r"(?:\s+(?:as well|too|everywhere))*(?=\s*(?:[.;,!?\n]|$|and\s+redirect))",
    re.I,
)
"""What a person adds to the command to delete a page; the mechanic does it anyway."""
RENAME_PATTERN = re.compile(r"(?:\W*+(?:please|can you|could you)\s++)*+(?:rename|move)\b", re.I)
HEADING_NOUN = (
    r"(?:(?:sub)?section\s+(?:heading|title)|heading\s+of\s+(?:the\s+)?section|(?:sub-?)?heading|header"
    r"|(?:sub)?section)"
)
RENAME_HEADING_PATTERN = re.compile(
    rf"(?:\W*+(?:please|can you|could you)\s++)*+(?:change|replace|update|correct)\s+(?:the\s+)?"
    rf"(?:{PLACEHOLDER_PATTERN}\s+)?{HEADING_NOUN}\b",
    re.I,
)
FIND_AND_REPLACE_PATTERN = re.compile(
    r"\b(?:find|search for|look for)\s+(?P<what>(?:(?!\band\b).)+?)\s+and\s+(?:replace|change)"
    r"\s+(?:it|them|all|each|every one)?\s*(?P<by>with|by|to)\b",
    re.I,
)
PLACE_FIRST_PATTERN = re.compile(
    rf"(?P<where>(?:in|on|across|throughout|for)\s[^,]+?),?\s+(?P<order>{COMMAND}.*)", re.I
)
FIND_AND_FIX_PATTERN = re.compile(
    r"\b(?:find|check for|check|look for|detect)\s+and\s+(?=fix|repair|correct|remove)", re.I
)
MISSING_FIRST_PATTERN = re.compile(
    r"(?:where(?:ver)?|if|when)\s+(?:(?:it|one|they)(?:\s+is|['’]s|\s+are)\s+)?(?:missing|absent|lacking|needed),?\s+"
    r"(?=(?:please\s+)?(?:add|insert|fill)\b)",
    re.I,
)
"""Words such as "where missing" before a command that adds fields. Fields are only added where they are missing."""
MISSING_FIELD_FIRST_PATTERN = re.compile(
    r"(?:(?:where(?:ver)?|if|when)\s+(?:a|any)\s+page\s+(?:has\s+no|lacks|is\s+missing)"
    r"|(?:for|on|to)\s+(?:all\s+|any\s+|the\s+|every\s+|each\s+)?pages?\s+(?:without|lacking|with\s+no|missing|that\s+(?:lacks?|ha(?:ve|s)\s+no)))"
    r"\s+(?:an?\s+)?(?P<field>title|description)s?,?\s+(?:please\s+)?(?:add|insert|fill\s+in)\s+(?:one|it|them)\b",
    re.I,
)
LINK_NOUN = r"(?:links?|anchors?|references?|navigation|nav|sidebar)"
UPDATE_LINKS_PATTERN = re.compile(
    r"(?:,?\s*and|,)\s*(?:also\s+)?(?:update|fix|adjust|correct|change|keep|rewrite)\s+(?:(?:all|the|its|any|every)\s+)*"
    rf"(?:internal\s+)?{LINK_NOUN}(?:\s+(?:to|that point to|pointing to)\s+(?:it|the page))?"
    rf"(?:(?:\s*,\s*|\s+and\s+)(?:the\s+|all\s+)?{LINK_NOUN}(?:\s+(?:to|pointing to)\s+it)?)*"
    r"(?:\s+(?:accordingly|working|entr(?:y|ies)|as well|too|in the navigation))*(?=\s*(?:[.;,\n]|$|and\b))",
    re.I,
)


@dataclass
class Quotations:
    """The quoted texts of a prompt. Placeholders replace them while the sentences around them are parsed."""

    texts: list[str] = field(default_factory=list)

    def extract(self, text: str) -> str:
        """Replaces quotations with placeholders and runs of spaces with one space: patterns are slow on long runs."""
        return SPACES_PATTERN.sub(" ", QUOTATION_PATTERN.sub(self._extract_one, text))

    def _extract_one(self, match: re.Match[str]) -> str:
        self.texts.append(next(group for group in match.groups() if group is not None))
        return PLACEHOLDER.format(len(self.texts) - 1)

    def resolve(self, text: str) -> str:
        """Returns the quoted text of a placeholder; returns any other text unchanged."""
        return self.texts[int(text[1:-1])] if is_placeholder(text) else text

    def restore(self, text: str) -> str:
        return re.sub(PLACEHOLDER_PATTERN, lambda match: f"“{self.resolve(match.group())}”", text)


def is_placeholder(text: str) -> bool:
    return re.fullmatch(PLACEHOLDER_PATTERN, text) is not None


def split_clauses(prompt: str) -> list[str]:
    """Splits a prompt into clauses with one command each. Quotations must be extracted first, or they are split too."""
    text = FIND_AND_REPLACE_PATTERN.sub(r"replace \g<what> \g<by>", prompt)
    text = FIND_AND_FIX_PATTERN.sub("", text)
    clauses: list[str] = []
    for line in text.split("\n"):
        line = BULLET_PATTERN.sub("", line).strip()
        opening = POLITE_OPENING_PATTERN.match(line)
        line = line[opening.end() :] if opening else line
        line = MISSING_FIRST_PATTERN.sub("", line, count=1) if MISSING_FIRST_PATTERN.match(line) else line
        if missing_field := MISSING_FIELD_FIRST_PATTERN.match(line):
            line = f"add a {missing_field['field']}{line[missing_field.end() :]}"
        if RENAME_PATTERN.match(line) or RENAME_HEADING_PATTERN.match(line):
            line = UPDATE_LINKS_PATTERN.sub("", line)
        if DELETE_OPENING_PATTERN.match(line) and re.search(
            r"\w\.(?:mdx?|rst)\b|\b(?:page|chapter|file)\b|\ue000", line
        ):
            line = DELETE_LINKS_PATTERN.sub("", line)
        place = PLACE_FIRST_PATTERN.fullmatch(line)
        if place and not CLAUSE_BOUNDARY_PATTERN.search(place["order"].rstrip(".! ")):
            line = f"{place['order'].rstrip('.! ')} {place['where']}"
        clauses += [clause for part in CLAUSE_BOUNDARY_PATTERN.split(line) if (clause := _strip_courtesies(part))]
    return clauses


def _strip_courtesies(clause: str) -> str:
    clause = clause.strip(" \t\r,.!…:") if not clause.endswith("/") else clause.strip()
    while (shorter := THANKS_PATTERN.sub("", clause)) != clause:
        clause = shorter
    clause = POLITE_OPENING_PATTERN.sub("", clause, count=1) if POLITE_OPENING_PATTERN.match(clause) else clause
    return "" if LIST_HEADER_PATTERN.fullmatch(clause) else clause.strip().rstrip(".!?,")
