"""Parses the scope of a command: the end of a sentence such as "… in docs/guide.md, including code blocks"."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from copydesk.jobs.agent.mechanic.instructions import InstructionScope
from copydesk.jobs.agent.mechanic.parsing.clauses import PLACEHOLDER_PATTERN, Quotations

CODE_NOUN = (
    r"(?:(?:the|any|all)\s+)?(?:(?:fenced|inline)\s+)?code"
    r"(?:\s+(?:blocks?|samples?|examples?|snippets?|spans?|fences?))*"
)
INSIDE_PREFIX = r"(?:(?:in|inside|within)\s+)?"
WITH_CODE_PATTERN = re.compile(
    r"(?<![\s,(])[\s,(]*+\b"
    r"(?:(?:also\s+|even\s+|and\s+)?(?:including|include)|(?:also|even|and|as well as)\s+(?:in|inside|within))"
    rf"\s+{INSIDE_PREFIX}{CODE_NOUN}(?:\s+(?:too|as well))?\)?$"
    r"|(?<![\s,(])[\s,(]*+\b(?:in\s+)?code\s+(?:too|as well|included)\)?$",
    re.I,
)
WITHOUT_CODE_PATTERN = re.compile(
    r"(?<![\s,(])[\s,(]*+(?:\b(?:but|and)\s+)?\b(?:except(?:\s+for)?|excluding|outside(?:\s+of)?|ignoring|skipping|without\s+touching"
    r"|leaving|leave|skip|ignore|exclude|not|do(?:n't|n’t|\s+not)\s+(?:touch|change|edit))"
    rf"\s+{INSIDE_PREFIX}{CODE_NOUN}(?:\s+(?:alone|as (?:it|they) (?:is|are)|as is|unchanged|untouched|out))?\)?$",
    re.I,
)
MAX_SCOPES = 10
"""Limits the scopes that one command may have."""
DOCUMENT_NOUN = (
    r"(?:documentation|docs?|pages?|files?|documents?|site|website|repository|repo|project|content|markdown|mdx?)"
)
ALL_WORDS = r"(?:(?:all|every|each|any|the|our|my|these|whole|entire|of|\.?mdx?|markdown|documentation|docs)\s+){0,8}+"
EVERYWHERE_PATTERN = re.compile(
    r"(?<![\s,])[\s,]++(?:everywhere|globally|throughout|site-?wide|where(?:ver)?\s+(?:it|they)\s+(?:occurs?|appears?)"
    rf"|(?P<preposition>in|on|across|throughout|over|within|for|from|of|to)\s+{ALL_WORDS}{DOCUMENT_NOUN})$",
    re.I,
)
PLACE_NAME = rf"(?:{PLACEHOLDER_PATTERN}|[\w./-]*[\w/-])"
PLACE_PATH = rf"(?:{PLACEHOLDER_PATTERN}|[\w.-]*/[\w./-]*|[\w-][\w.-]*\.(?:md|mdx|markdown|rst|txt|adoc))"
PLACE_PREFIX = (
    r"(?<![\s,])[\s,]++(?:(?:but\s+)?only\s+)?(?P<preposition>in|on|within|under|inside|from|of|for|across|throughout|to|below)\s+"
    r"(?:(?:all|every|each)\s+(?:of\s+)?(?:the\s+)?(?:pages?|files?|docs|documents?)\s+(?:in|under|inside|within|of|below)\s+)?"
    r"(?:only\s+)?(?:the\s+)?"
)
LIST_SEPARATOR = r"(?:\s*,\s*(?:and\s+)?|\s+and\s+)"
PLACE_PATTERNS = (
    re.compile(
        rf"{PLACE_PREFIX}(?:page|file|document|folder|directory)s?\s+(?P<places>{PLACE_NAME}(?:{LIST_SEPARATOR}{PLACE_NAME})*)$",
        re.I,
    ),
    re.compile(
        rf"{PLACE_PREFIX}(?P<places>{PLACE_NAME})\s+(?:page|file|document|folder|directory|section)(?:\s+only)?$", re.I
    ),
    re.compile(rf"{PLACE_PREFIX}(?P<places>{PLACE_PATH}(?:{LIST_SEPARATOR}{PLACE_PATH})*)(?:\s+only)?$", re.I),
)

FOLDER_WORD = r"[\w-][\w.-]*"
FOLDER_PATTERN = re.compile(
    r"(?<![\s,])[\s,]++(?:(?:but\s+)?only\s+)?(?:in|within|under|inside|across|throughout|below)\s+"
    rf"(?P<words>{FOLDER_WORD}(?:{LIST_SEPARATOR}{FOLDER_WORD})*)(?:\s+only)?$",
    re.I,
)
"""Words that are a place only if the repository has folders of these names, such as "in docs"."""
FindFolders = Callable[[str], Sequence[str]]
"""Returns the folders with pages that a bare word may mean."""


def split_scope(
    clause: str, quotations: Quotations, to_is_place: bool, find_folders: FindFolders
) -> tuple[str, InstructionScope]:
    """Returns the command without its scope, and the scope. `to_is_place` is True after verbs such as add."""
    scope = InstructionScope()
    for _ in range(MAX_SCOPES):
        shorter, scope = _split_last_scope(clause, scope, quotations, to_is_place, find_folders)
        if shorter == clause:
            break
        clause = shorter
    return clause.strip(), scope


def parse_code_clause(clause: str) -> bool | None:
    """Returns whether code is included, for a clause that says only that; None for any other clause."""
    if WITHOUT_CODE_PATTERN.fullmatch(clause):
        return False
    return True if WITH_CODE_PATTERN.fullmatch(clause) else None


def _split_last_scope(
    clause: str, scope: InstructionScope, quotations: Quotations, to_is_place: bool, find_folders: FindFolders
) -> tuple[str, InstructionScope]:
    for pattern, code in ((WITHOUT_CODE_PATTERN, False), (WITH_CODE_PATTERN, True)):
        if match := pattern.search(clause):
            return clause[: match.start()], replace(scope, code=code)
    if not scope.places and (match := FOLDER_PATTERN.search(clause)):
        words = re.split(LIST_SEPARATOR, match["words"])
        folders = [find_folders(word) for word in words]
        if all(folders):
            places = [f"{found[0]}/" if len(found) == 1 else word for word, found in zip(words, folders, strict=True)]
            return clause[: match.start()], replace(scope, places=tuple(places))
    if (match := EVERYWHERE_PATTERN.search(clause)) and _is_place(match, to_is_place):
        return clause[: match.start()], scope
    for pattern in PLACE_PATTERNS:
        match = pattern.search(clause)
        if match and not scope.places and _is_place(match, to_is_place):
            names = re.split(LIST_SEPARATOR, match["places"])
            return clause[: match.start()], replace(scope, places=tuple(quotations.resolve(name) for name in names))
    return clause, scope


def _is_place(match: re.Match[str], to_is_place: bool) -> bool:
    return to_is_place or (match["preposition"] or "").lower() != "to"
