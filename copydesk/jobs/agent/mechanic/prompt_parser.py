"""From a person's words to instructions. Never a guess: what is not wholly understood is not understood at all."""

import re
from dataclasses import replace

from copydesk.jobs.agent.mechanic.clauses import HELD_PATTERN, Quotations, clauses, is_held
from copydesk.jobs.agent.mechanic.instructions import (
    FROM_THE_PAGE,
    AddField,
    FixHeadings,
    FixLinks,
    Instruction,
    MovePage,
    NotUnderstood,
    Replace,
    Scope,
    TrimSpace,
)
from copydesk.jobs.agent.mechanic.scope_parser import code_wish, peel

VALUE = rf"(?:{HELD_PATTERN}|\S+(?:\s+\S+){{0,3}}?)"
EACH = (
    r"(?:(?:(?:all|each|every|any)\s+)?(?:the\s+)?(?:occurrences?|instances?|uses?|mentions?|appearances?)\s+of\s+"
    r"|(?:all|each|every|any)\s+)?"
)
WORD = r"(?:words?|terms?|phrases?|texts?|strings?|spellings?|expressions?|(?:(?:product|company|brand)\s+)?names?)"
NOUN = rf"{EACH}(?P<noun>(?:the\s+)?{WORD}\s+(?:of\s+)?)?(?:the\s+(?=\ue000))?"
ARROW = r"->|→|=>"
REPLACE = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"replace\s+{NOUN}(?P<old>{VALUE})\s+(?:with|by|{ARROW})\s+(?:the\s+(?:word|term|phrase|text)\s+)?(?P<new>{VALUE})",
        rf"(?:change|convert|turn|correct|update|rename)\s+{NOUN}(?P<old>{VALUE})\s+(?:to|into|{ARROW})\s+(?P<new>{VALUE})",
        rf"(?:substitute|swap)\s+{NOUN}(?P<old>{VALUE})\s+(?:with|by|{ARROW})\s+(?P<new>{VALUE})",
        rf"swap\s+{NOUN}(?P<old>{VALUE})\s+for\s+(?P<new>{VALUE})",
        rf"substitute\s+(?P<new>{VALUE})\s+for\s+{NOUN}(?P<old>{VALUE})",
        rf"(?:use|write|say)\s+{NOUN}(?P<new>{VALUE})\s+(?:instead of|rather than|in place of)\s+(?P<old>{VALUE})",
    )
)
# Words that make a bare phrase a description of something rather than the text itself.
DESCRIBING = set(
    re.findall(
        r"\w+",
        """a an the this that these those it its them they all any every each some something everything more less better
        new old our my your their voice tone jargon sentence sentences paragraph paragraphs section sections intro
        introduction wording language style example examples image images screenshot screenshots link links heading
        headings title titles table tables list lists page pages code text content description descriptions logo diagram
        version one ones case""",
    )
)
JOINING = {*("and", "or", "but", "then", "also", "with", "by", "to", "into", "for", "from", "if", "when", "where")}
JOINING |= {"unless", "except", "only", "instead", "not", "so", "because", "as"}
LAST_ONLY = {"in", "on", "out", "up", "off"}
NAME = rf"(?:{HELD_PATTERN}|[\w./-]+)"
PAGE = r"(?:page|file|document|doc|article|guide)"
MOVE = re.compile(
    rf"(?P<verb>rename|move)\s+(?:the\s+)?(?P<noun>{PAGE}\s+)?(?:(?:called|named|at)\s+)?(?P<page>{NAME})(?P<after>\s+{PAGE})?"
    rf"\s+(?:to|into|as|{ARROW})\s+(?:the\s+)?(?P<folder>(?:folder|directory)\s+)?(?P<to>{NAME})(?P<into>\s+(?:folder|directory))?",
    re.I,
)
ALL = r"(?:(?:all|any|the|every|our|of|these)\s+)*"
FIX_LINKS = re.compile(
    rf"(?:fix|repair|correct|mend|resolve)\s+{ALL}(?:(?:broken|dead|invalid|bad|wrong)\s+)?(?:(?:internal|relative|local|cross)[\s-]+)?"
    r"(?:hyper)?(?:links?|references?)(?:\s+and\s+(?:images?|anchors?))?(?:\s+(?:that|which)\s+(?:are\s+broken|don['’]t\s+work|do\s+not\s+work|lead\s+nowhere))?",
    re.I,
)
SPACE = r"(?:white[\s-]?spaces?|spaces?|blanks?|tabs?)"
TRIM = re.compile(
    rf"(?:remove|strip|trim|delete|clean(?:\s+up)?|fix|get\s+rid\s+of)\s+{ALL}(?:(?:trailing|end-of-line)\s+{SPACE}(?:\s+and\s+(?:tabs|spaces))?"
    rf"(?:\s+characters)?|{SPACE}\s+at\s+(?:the\s+)?(?:line\s+ends?|ends?\s+of\s+(?:the\s+|each\s+|every\s+|all\s+)?lines?))",
    re.I,
)
HEADINGS = re.compile(
    rf"(?:fix|repair|correct|normali[sz]e|tidy(?:\s+up)?|clean\s+up)\s+{ALL}(?:(?:skipped|wrong|broken|inconsistent|bad)\s+)?"
    r"(?:headings?|headers?|titles?)[\s-]+(?:levels?|hierarch(?:y|ies)|structures?|nesting|depths?|order)"
    rf"|(?:fix|repair|correct)\s+{ALL}(?:headings?|headers?)\s+(?:that|which)\s+(?:skip|jump)(?:\s+(?:a|over))?\s+levels?",
    re.I,
)
FRONT = r"(?:yaml\s+)?front[\s-]?matter"
IN_FRONT = re.compile(
    rf"\s+(?:to|in|into|of)\s+(?:(?:the|their|its|page|(?:each|every)\s+page['’]s)\s+)*{FRONT}\b", re.I
)
LACKS = (
    r"(?:that|which)\s+(?:lacks?|miss(?:es)?|needs?|(?:do|does)(?:\s+not|n['’]t)\s+(?:yet\s+)?have|(?:have|has)\s+no"
    r"|(?:are|is)\s+missing)"
)
LACKING = re.compile(
    rf"(?:\s+{LACKS}|(?:(?<=page)|(?<=pages)|(?<=file)|(?<=files)|(?<=docs))\s+(?:without|lacking|missing|with\s+no))"
    r"\s*(?:one|it|them|any|none|a\s+\w+|an\s+\w+|titles?|descriptions?)?(?:\s+yet)?$"
    r"|\s+(?:where|if|when)\s+(?:(?:it|one|they)(?:\s+is|['’]s|\s+are)\s+)?(?:missing|absent|lacking|needed)$"
    r"|\s+that\s+have\s+none$",
    re.I,
)
PREPOSITION, PAGES = re.compile(r"\b(?:of|in|on|to|for)\b", re.I), re.compile(r"\b(?:pages?|files?)\b", re.I)
WORDS = r"(?:(?:a|an|the|all|any|missing|page|meta|default|proper|suitable)\s+)*"
DERIVED = re.compile(
    rf"(?:add|insert|fill\s+in|write|generate|create|put\s+in)\s+{WORDS}(?:{FRONT}\s+{WORDS})?(?P<name>titles?|descriptions?)(?P<second>\s+and\s+(?:a\s+)?(?:titles?|descriptions?))?(?:\s+fields?)?"
    r"|(?:give|ensure|make\s+sure)\s+(?:that\s+)?(?:all|every|each)\s+(?:the\s+)?pages?\s+(?:(?:has|have|gets?)\s+)?(?:a|an)\s+(?P<given>titles?|descriptions?)",
    re.I,
)
FIELD = re.compile(
    rf"(?:add|insert)\s+{WORDS}(?P<first>{FRONT}\s+)?(?P<noun>(?:field|property|key|line|entry)\s+)?(?P<name>{HELD_PATTERN}|[\w-]+)"
    rf"(?:\s+(?:field|property|key))?(?:\s*(?::|=|with|set\s+to|with\s+the\s+value|with\s+value)\s*(?P<value>{HELD_PATTERN}|[^\ue000]+))?",
    re.I,
)
PAIR = re.compile(r"(?P<name>[A-Za-z_][\w-]*)\s*:\s*(?P<value>\S.*)")
LONGEST_PROMPT = 4000
MAX_PHRASE_WORDS = 100
"""Limits a phrase to replace: a page may hold all but its last word again and again."""


def understand(prompt: str) -> list[Instruction] | NotUnderstood:
    if len(prompt) > LONGEST_PROMPT:
        return NotUnderstood(prompt.strip())
    quotations = Quotations()
    found: list[Instruction] = []
    for clause in clauses(quotations.hold(prompt)):
        wish = code_wish(clause)
        if wish is not None and found and not isinstance(found[-1], MovePage):
            found[-1] = replace(found[-1], scope=replace(found[-1].scope, code=wish))
            continue
        understood = _instructions(clause, quotations)
        if not understood:
            return NotUnderstood(quotations.released(clause))
        found += understood
    return found or NotUnderstood(prompt.strip())


def _instructions(clause: str, quotations: Quotations) -> list[Instruction]:
    if move := _move(clause, quotations):
        return [move]
    adding = re.match(r"(?:add|insert|fill|write|generate|create|put|give|ensure|make)\b", clause, re.I)
    order, in_front = IN_FRONT.subn("", clause) if adding else (clause, 0)
    order, scope = peel(LACKING.sub("", order) if adding else order, quotations, to_is_place=bool(adding))
    if adding:
        order = LACKING.sub("", order)
        return _fields(order, scope, bool(in_front) or re.search(FRONT, clause, re.I) is not None, quotations)
    if FIX_LINKS.fullmatch(order):
        return [FixLinks(scope)]
    if TRIM.fullmatch(order):
        return [TrimSpace(scope)]
    if HEADINGS.fullmatch(order):
        return [FixHeadings(scope)]
    named_scope = bool(scope.places) or order != clause
    replacement = _replace(order, scope, named_scope, quotations)
    return [replacement] if replacement else []


def _replace(order: str, scope: Scope, named_scope: bool, quotations: Quotations) -> Replace | None:
    for pattern in REPLACE:
        match = pattern.fullmatch(order)
        if match is None:
            continue
        if order.lower().startswith("rename") and not (match["noun"] or named_scope):
            return None
        if not all(_is_literal(match[part], bool(match["noun"])) for part in ("old", "new")):
            continue
        old, new = quotations.value(match["old"]), quotations.value(match["new"])
        if len(old.split()) > MAX_PHRASE_WORDS:
            return None
        return Replace(old, new, scope) if old.strip() and old != new else None
    return None


def _is_literal(text: str, named: bool) -> bool:
    """Whether the words are the text itself: quoted, or a few words that do not describe or go on."""
    if is_held(text):
        return True
    words = [word.lower().strip(",") for word in text.split()]
    if "\ue000" in text or "," in text or set(words) & JOINING or set(words[:-1]) & LAST_ONLY or words[0] in LAST_ONLY:
        return False
    return named or not set(words) & DESCRIBING


def _names_a_place(value: str) -> bool:
    preposition = PREPOSITION.search(value)
    return preposition is not None and PAGES.search(value, preposition.end()) is not None


def _move(clause: str, quotations: Quotations) -> MovePage | None:
    match = MOVE.fullmatch(clause)
    if match is None or re.match(r"(?:rename|move)\s+(?:the\s+)?(?:word|term|phrase)\b", clause, re.I):
        return None
    page, to = quotations.value(match["page"]), quotations.value(match["to"])
    into = bool(match["folder"] or match["into"]) or to.endswith("/")
    described = {match[part].lower() for part in ("page", "to")} & DESCRIBING
    if not page.strip("/") or not to.strip("/") or described:
        return None
    return MovePage(page.strip("/"), to.strip("/") if into else to.lstrip("/"), into, match["verb"].lower() == "rename")


def _fields(order: str, scope: Scope, in_front: bool, quotations: Quotations) -> list[Instruction]:
    if re.fullmatch(rf"(?:add|insert|fill\s+in)\s+{WORDS}{FRONT}(?:\s+fields?)?", order, re.I):
        return [AddField(name, None, scope) for name in FROM_THE_PAGE]
    if derived := DERIVED.fullmatch(order):
        names = [derived["name"] or derived["given"], derived["second"] and derived["second"].split()[-1]]
        return [AddField(name.lower().rstrip("s"), None, scope) for name in dict.fromkeys(names) if name]
    match = FIELD.fullmatch(order)
    if match is None or not (in_front or match["noun"]):
        return []
    name, value = quotations.value(match["name"]), match["value"] and quotations.value(match["value"]).strip()
    if value is None and (pair := PAIR.fullmatch(name)):
        name, value = pair["name"], pair["value"]
    if value is not None and not is_held(match["value"] or match["name"]) and _names_a_place(value):
        return []  # half of a place that was not understood
    if not re.fullmatch(r"[A-Za-z_][\w-]*", name) or value is None or "\n" in value:
        return [AddField(name, None, scope)] if name in FROM_THE_PAGE and value is None else []
    return [AddField(name, value, scope)]
