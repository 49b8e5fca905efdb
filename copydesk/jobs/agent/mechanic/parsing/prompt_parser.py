"""Parses a prompt into instructions. It never guesses: a prompt that is not fully understood is rejected as a whole."""

import re
from dataclasses import replace

from copydesk.core.text.reader_data import list_reader_lines
from copydesk.jobs.agent.mechanic.instructions import (
    DERIVABLE_FIELDS,
    AddField,
    FixHeadings,
    FixLinks,
    Instruction,
    InstructionScope,
    MovePage,
    NotUnderstood,
    PageInstruction,
    RenameHeading,
    Replace,
    SetTableValue,
    TrimSpace,
)
from copydesk.jobs.agent.mechanic.parsing.clauses import (
    HEADING_NOUN,
    PLACEHOLDER_PATTERN,
    VERB,
    Quotations,
    is_placeholder,
    split_clauses,
)
from copydesk.jobs.agent.mechanic.parsing.page_commands import parse_deletion, parse_nav_entry, parse_redirects
from copydesk.jobs.agent.mechanic.parsing.scope_parser import (
    EVERYWHERE_PATTERN,
    PLACE_PATH,
    FindFolders,
    parse_code_clause,
    split_scope,
)
from copydesk.jobs.agent.review_comment import split_review_comment

VALUE_PATTERN = rf"(?:{PLACEHOLDER_PATTERN}|\S+(?:\s+\S+){{0,3}}?)"
QUANTIFIER = (
    r"(?:(?:(?:all|each|every|any)\s+)?(?:the\s+)?(?:occurrences?|instances?|uses?|mentions?|appearances?)\s+of\s+"
    r"|(?:all|each|every|any)\s+)?"
)
WORD_NOUN = (
    r"(?:words?|terms?|phrases?|texts?|strings?|spellings?|expressions?|(?:(?:product|company|brand)\s+)?names?)"
)
NOUN_PREFIX = rf"{QUANTIFIER}(?P<noun>(?:the\s+)?{WORD_NOUN}\s+(?:of\s+)?)?(?:the\s+(?=\ue000))?"
ARROW = r"->|→|=>"
REPLACE_PATTERNS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"replace\s+{NOUN_PREFIX}(?P<old>{VALUE_PATTERN})\s+(?:with|by|{ARROW})\s+(?:the\s+(?:word|term|phrase|text)\s+)?(?P<new>{VALUE_PATTERN})",
        rf"(?:change|convert|turn|correct|update|rename)\s+{NOUN_PREFIX}(?P<old>{VALUE_PATTERN})\s+(?:to|into|{ARROW})\s+(?P<new>{VALUE_PATTERN})",
        rf"(?:substitute|swap)\s+{NOUN_PREFIX}(?P<old>{VALUE_PATTERN})\s+(?:with|by|{ARROW})\s+(?P<new>{VALUE_PATTERN})",
        rf"swap\s+{NOUN_PREFIX}(?P<old>{VALUE_PATTERN})\s+for\s+(?P<new>{VALUE_PATTERN})",
        rf"substitute\s+(?P<new>{VALUE_PATTERN})\s+for\s+{NOUN_PREFIX}(?P<old>{VALUE_PATTERN})",
        rf"(?:use|write|say)\s+{NOUN_PREFIX}(?P<new>{VALUE_PATTERN})"
        rf"\s+(?:instead of|rather than|in place of)\s+(?P<old>{VALUE_PATTERN})",
    )
)
# With one of these words, an unquoted phrase describes a text and is not the text itself.
DESCRIPTIVE_WORDS = set(
    re.findall(
        r"\w+",
        """a an the this that these those it its them they all any every each some something everything more less better
        new old our my your their voice tone jargon sentence sentences paragraph paragraphs section sections intro
        introduction wording language style example examples image images screenshot screenshots link links heading
        headings title titles table tables list lists page pages code text content description descriptions logo diagram
        version one ones case""",
    )
)
JOINING_WORDS = {
    *("and", "or", "but", "then", "also", "with", "by", "to", "into", "for", "from", "if", "when", "where")
}
JOINING_WORDS |= {"unless", "except", "only", "instead", "not", "so", "because", "as"}
PLAIN_WORDS = {"a", "an", "the", "with", "by", "to", "into", "for", "from", "and"}
"""Words that are a part of most commands."""
WORD_PATTERN = re.compile(r"[A-Za-z][\w'’-]*")
VERB_PATTERN = re.compile(VERB, re.I)
FINAL_ONLY_WORDS = {"in", "on", "out", "up", "off"}
PAGE_NAME = rf"(?:{PLACEHOLDER_PATTERN}|[\w./-]+)"
PAGE_NOUN = r"(?:page|file|document|doc|article|guide)"
MOVE_PATTERN = re.compile(
    rf"(?P<verb>rename|move)\s+(?:the\s+)?(?P<noun>{PAGE_NOUN}\s+)?(?:(?:called|named|at)\s+)?(?P<page>{PAGE_NAME})(?P<after>\s+{PAGE_NOUN})?"
    rf"\s+(?:to|into|as|{ARROW})\s+(?:the\s+)?(?P<folder>(?:folder|directory)\s+)?(?P<to>{PAGE_NAME})(?P<into>\s+(?:folder|directory))?",
    re.I,
)
DETERMINERS = r"(?:(?:all|any|the|every|our|of|these)\s+)*"
FIX_LINKS_PATTERN = re.compile(
    rf"(?:fix|repair|correct|mend|resolve)\s+{DETERMINERS}(?:(?:broken|dead|invalid|bad|wrong)\s+)?(?:(?:internal|relative|local|cross)[\s-]+)?"
    r"(?:hyper)?(?:links?|references?)(?:\s+and\s+(?:images?|anchors?))?(?:\s+(?:that|which)\s+(?:are\s+broken|don['’]t\s+work|do\s+not\s+work|lead\s+nowhere))?",
    re.I,
)
WHITESPACE_NOUN = r"(?:white[\s-]?spaces?|spaces?|blanks?|tabs?)"
TRIM_PATTERN = re.compile(
    rf"(?:remove|strip|trim|delete|clean(?:\s+up)?|fix|get\s+rid\s+of)\s+{DETERMINERS}(?:(?:trailing|end-of-line)\s+{WHITESPACE_NOUN}(?:\s+and\s+(?:tabs|spaces))?"
    rf"(?:\s+characters)?|{WHITESPACE_NOUN}\s+at\s+(?:the\s+)?(?:line\s+ends?|ends?\s+of\s+(?:the\s+|each\s+|every\s+|all\s+)?lines?))",
    re.I,
)
FIX_HEADINGS_PATTERN = re.compile(
    rf"(?:fix|repair|correct|normali[sz]e|tidy(?:\s+up)?|clean\s+up)\s+{DETERMINERS}(?:(?:skipped|wrong|broken|inconsistent|bad)\s+)?"
    r"(?:headings?|headers?|titles?)[\s-]+(?:levels?|hierarch(?:y|ies)|structures?|nesting|depths?|order)"
    rf"|(?:fix|repair|correct)\s+{DETERMINERS}(?:headings?|headers?)\s+(?:that|which)\s+(?:skip|jump)(?:\s+(?:a|over))?\s+levels?",
    re.I,
)
FRONT_MATTER = r"(?:yaml\s+)?front[\s-]?matter"
IN_FRONT_MATTER_PATTERN = re.compile(
    rf"\s+(?:to|in|into|of)\s+(?:(?:the|their|its|page|(?:each|every)\s+page['’]s)\s+)*{FRONT_MATTER}\b", re.I
)
LACKS_CLAUSE = (
    r"(?:that|which)\s+(?:lacks?|miss(?:es)?|needs?|(?:do|does)(?:\s+not|n['’]t)\s+(?:yet\s+)?have|(?:have|has)\s+no"
    r"|(?:are|is)\s+missing)"
)
LACKING_PATTERN = re.compile(
    rf"(?:\s+{LACKS_CLAUSE}|(?:(?<=page)|(?<=pages)|(?<=file)|(?<=files)|(?<=docs))\s+(?:without|lacking|missing|with\s+no))"
    r"\s*(?:one|it|them|any|none|a\s+\w+|an\s+\w+|titles?|descriptions?)?(?:\s+yet)?$"
    r"|\s+(?:where(?:ver)?|if|when)\s+(?:(?:it|one|they)(?:\s+is|['’]s|\s+are)\s+)?(?:missing|absent|lacking|needed)"
    r"(?:$|(?=\s+(?:to|in|on|of|for)\b))"
    r"|\s+that\s+have\s+none$",
    re.I,
)
PREPOSITION_PATTERN, PAGES_PATTERN = (
    re.compile(r"\b(?:of|in|on|to|for)\b", re.I),
    re.compile(r"\b(?:pages?|files?)\b", re.I),
)
FILLER_WORDS = r"(?:(?:a|an|the|all|any|missing|page|meta|default|proper|suitable)\s+)*"
DERIVED_FIELD_PATTERN = re.compile(
    rf"(?:add|insert|fill\s+in|write|generate|create|put\s+in)\s+{FILLER_WORDS}(?:{FRONT_MATTER}\s+{FILLER_WORDS})?(?P<name>titles?|descriptions?)(?P<second>\s+and\s+(?:a\s+)?(?:titles?|descriptions?))?(?:\s+fields?)?"
    r"|(?:give|ensure|make\s+sure)\s+(?:that\s+)?(?:all|every|each)\s+(?:the\s+)?pages?\s+(?:(?:has|have|gets?)\s+)?(?:a|an)\s+(?P<given>titles?|descriptions?)",
    re.I,
)
FIELD_PATTERN = re.compile(
    rf"(?:add|insert)\s+{FILLER_WORDS}(?P<first>{FRONT_MATTER}\s+)?(?P<noun>(?:field|property|key|line|entry)\s+)?(?P<name>{PLACEHOLDER_PATTERN}|[\w-]+)"
    rf"(?:\s+(?:field|property|key))?(?:\s*(?::|=|with|set\s+to|with\s+the\s+value|with\s+value)\s*(?P<value>{PLACEHOLDER_PATTERN}|[^\ue000]+))?",
    re.I,
)
KEY_VALUE_PATTERN = re.compile(r"(?P<name>[A-Za-z_][\w-]*)\s*:\s*(?P<value>\S.*)")
HEADING_PATTERN = re.compile(
    rf"(?:change|rename|replace|update|correct)\s+(?:the\s+)?"
    rf"(?:(?P<quoted>{PLACEHOLDER_PATTERN})\s+{HEADING_NOUN}"
    rf"|{HEADING_NOUN}\s+(?:(?:called|named|titled)\s+)?(?P<old>{VALUE_PATTERN}))"
    rf"(?:\s+(?:in|on|of)\s+(?:the\s+)?(?:page\s+|file\s+)?(?P<place>{PLACE_PATH})(?:\s+page)?)?"
    rf"\s+(?:to|into|with|by|as|{ARROW})\s+(?P<new>{VALUE_PATTERN})",
    re.I,
)
HEADING_WORDS = {"heading", "headings", "section", "sections", "level", "levels", "style", "case", "one", "ones"}
"""Words that describe a heading, if nothing is quoted, instead of being a part of its text."""
HEADING_LEVEL_PATTERN = re.compile(r"h[1-6]|(?:level|heading)\s+\d", re.I)
TABLE_PATTERN = re.compile(
    rf"(?:set|change|update)\s+(?:the\s+)?(?:(?:values?|entry|cell)\s+(?:of|for)\s+)?(?:the\s+)?"
    rf"(?:(?P<column>{VALUE_PATTERN})\s+(?:column\s+)?(?:of|for)\s+)?(?:the\s+(?:row|option|setting)\s+)?(?P<row>{VALUE_PATTERN})"
    rf"\s+(?:to|{ARROW})\s+(?P<value>{VALUE_PATTERN})\s+in\s+(?:the|a|its)\s+table",
    re.I,
)
HERE_PATTERN = re.compile(
    r"(?<!\s)\s++(?:here|(?:in|on)\s+th(?:is|ese)\s+(?:lines?|sentence|paragraph|(?P<page>page|file)))[\s.!]*$", re.I
)
MAX_MECHANIC_PROMPT_CHARS = 4000
MAX_PHRASE_WORDS = 100
"""Limits a phrase to replace, because a page that repeats all but its last word makes matching slow."""


def parse_prompt(
    prompt: str, data: str = "", find_folders: FindFolders = lambda word: ()
) -> list[Instruction] | NotUnderstood:
    """Parses a prompt. A comment on a line of a file is about that line, unless it names another place.

    `data` is what Copydesk collected; only a command that asks for missing addresses reads them there. `find_folders`
    tells which words are folders of the repository.
    """
    prompt, place = split_review_comment(prompt)
    scope = InstructionScope()
    if place is not None:
        prompt, names_page = _strip_here(prompt)
        has_line = place.last_line is not None and not place.is_removed and not names_page
        lines = (place.first_line or place.last_line or 1, place.last_line or 1) if has_line else None
        scope = InstructionScope((place.path,), lines=lines)
    if len(prompt) > MAX_MECHANIC_PROMPT_CHARS:
        return NotUnderstood(prompt.strip())
    quotations = Quotations()
    instructions: list[Instruction] = []
    for clause in split_clauses(quotations.extract(prompt)):
        include_code = parse_code_clause(clause)
        if include_code is not None and instructions and not isinstance(instructions[-1], PageInstruction):
            instructions[-1] = replace(instructions[-1], scope=replace(instructions[-1].scope, code=include_code))
            continue
        redirects = parse_redirects(clause, quotations, list_reader_lines(data))
        parsed = [redirects] if redirects else _parse_clause(clause, quotations, find_folders)
        if not parsed:
            return NotUnderstood(quotations.restore(clause), _find_unclear_word(clause))
        instructions += [_set_default_scope(instruction, clause, scope) for instruction in parsed]
    return instructions or NotUnderstood(prompt.strip())


def _find_unclear_word(clause: str) -> str:
    """Returns the verb if the mechanic does not know it, or else the first word that describes or joins."""
    words: list[str] = WORD_PATTERN.findall(clause)
    if not words:
        return ""
    if not VERB_PATTERN.fullmatch(words[0]):
        return words[0]
    unclear = (word for word in words[1:] if word.lower() in (DESCRIPTIVE_WORDS | JOINING_WORDS) - PLAIN_WORDS)
    return next(unclear, "")


def _strip_here(comment: str) -> tuple[str, bool]:
    """Removes words such as "here" at the end. Returns also whether they name the whole page."""
    match = HERE_PATTERN.search(comment)
    return (comment[: match.start()], bool(match["page"])) if match else (comment, False)


def _set_default_scope(instruction: Instruction, clause: str, scope: InstructionScope) -> Instruction:
    """Limits an instruction that names no place itself to the scope. A field is one of the whole page."""
    if isinstance(instruction, PageInstruction) or instruction.scope.places or EVERYWHERE_PATTERN.search(clause):
        return instruction
    lines = None if isinstance(instruction, AddField) else scope.lines
    return replace(instruction, scope=replace(instruction.scope, places=scope.places, lines=lines))


def _parse_clause(clause: str, quotations: Quotations, find_folders: FindFolders) -> list[Instruction]:
    if move := _parse_move(clause, quotations):
        return [move]
    if page_instruction := parse_deletion(clause, quotations) or parse_nav_entry(clause, quotations):
        return [page_instruction]
    add_match = re.match(r"(?:add|insert|fill|write|generate|create|put|give|ensure|make)\b", clause, re.I)
    command, front_matter_count = IN_FRONT_MATTER_PATTERN.subn("", clause) if add_match else (clause, 0)
    command, scope = split_scope(
        LACKING_PATTERN.sub("", command) if add_match else command, quotations, bool(add_match), find_folders
    )
    if add_match:
        command = LACKING_PATTERN.sub("", command)
        return _parse_add_fields(
            command, scope, bool(front_matter_count) or re.search(FRONT_MATTER, clause, re.I) is not None, quotations
        )
    if FIX_LINKS_PATTERN.fullmatch(command):
        return [FixLinks(scope)]
    if TRIM_PATTERN.fullmatch(command):
        return [TrimSpace(scope)]
    if FIX_HEADINGS_PATTERN.fullmatch(command):
        return [FixHeadings(scope)]
    if heading := _parse_heading(command, scope, quotations):
        return [heading]
    if table := TABLE_PATTERN.fullmatch(command):
        column = table["column"] and quotations.resolve(table["column"])
        return [SetTableValue(quotations.resolve(table["row"]), quotations.resolve(table["value"]), column, scope)]
    named_scope = bool(scope.places) or command != clause
    replacement = _parse_replace(command, scope, named_scope, quotations)
    return [replacement] if replacement else []


def _parse_heading(command: str, scope: InstructionScope, quotations: Quotations) -> RenameHeading | None:
    """Parses a command that changes the text of one heading."""
    match = HEADING_PATTERN.fullmatch(command)
    if match is None:
        return None
    old, new = match["quoted"] or match["old"], match["new"]
    if not _is_heading(old) or not _is_heading(new) or HEADING_LEVEL_PATTERN.fullmatch(new):
        return None
    if match["place"]:
        scope = replace(scope, places=(quotations.resolve(match["place"]),))
    old, new = quotations.resolve(old).strip(), quotations.resolve(new).strip()
    return RenameHeading(old, new, scope) if old and new and old != new else None


def _is_heading(text: str) -> bool:
    """Returns whether the words are the text of a heading: quoted, or not a description such as "a shorter one"."""
    words = text.split()
    describes = words[0] in DESCRIPTIVE_WORDS | {"of", "at", "about"} or set(text.lower().split()) & HEADING_WORDS
    return _is_literal(text, has_noun=True) and not describes


def _parse_replace(command: str, scope: InstructionScope, named_scope: bool, quotations: Quotations) -> Replace | None:
    for pattern in REPLACE_PATTERNS:
        match = pattern.fullmatch(command)
        if match is None:
            continue
        if command.lower().startswith("rename") and not (match["noun"] or named_scope):
            return None
        if not all(_is_literal(match[part], bool(match["noun"])) for part in ("old", "new")):
            continue
        old = quotations.resolve(match["old"])
        new = quotations.resolve(match["new"])
        if len(old.split()) > MAX_PHRASE_WORDS:
            return None
        return Replace(old, new, scope) if old.strip() and old != new else None
    return None


def _is_literal(text: str, has_noun: bool) -> bool:
    """Returns whether the words are the text itself: quoted, or not a description and not part of another clause."""
    if is_placeholder(text):
        return True
    words = [word.lower().strip(",") for word in text.split()]
    if (
        "\ue000" in text
        or "," in text
        or set(words) & JOINING_WORDS
        or set(words[:-1]) & FINAL_ONLY_WORDS
        or words[0] in FINAL_ONLY_WORDS
    ):
        return False
    return has_noun or not set(words) & DESCRIPTIVE_WORDS


def _mentions_pages(value: str) -> bool:
    preposition = PREPOSITION_PATTERN.search(value)
    return preposition is not None and PAGES_PATTERN.search(value, preposition.end()) is not None


def _parse_move(clause: str, quotations: Quotations) -> MovePage | None:
    match = MOVE_PATTERN.fullmatch(clause)
    if match is None or re.match(r"(?:rename|move)\s+(?:the\s+)?(?:word|term|phrase)\b", clause, re.I):
        return None
    page = quotations.resolve(match["page"])
    to = quotations.resolve(match["to"])
    into_folder = bool(match["folder"] or match["into"]) or to.endswith("/")
    descriptive_words = {match[part].lower() for part in ("page", "to")} & DESCRIPTIVE_WORDS
    if not page.strip("/") or not to.strip("/") or descriptive_words:
        return None
    return MovePage(
        page.strip("/"),
        to.strip("/") if into_folder else to.lstrip("/"),
        into_folder,
        match["verb"].lower() == "rename",
    )


def _parse_add_fields(
    command: str, scope: InstructionScope, in_front_matter: bool, quotations: Quotations
) -> list[Instruction]:
    if re.fullmatch(rf"(?:add|insert|fill\s+in)\s+{FILLER_WORDS}{FRONT_MATTER}(?:\s+fields?)?", command, re.I):
        return [AddField(name, None, scope) for name in DERIVABLE_FIELDS]
    if derived := DERIVED_FIELD_PATTERN.fullmatch(command):
        names = [derived["name"] or derived["given"], derived["second"] and derived["second"].split()[-1]]
        return [AddField(name.lower().rstrip("s"), None, scope) for name in dict.fromkeys(names) if name]
    match = FIELD_PATTERN.fullmatch(command)
    if match is None or not (in_front_matter or match["noun"]):
        return []
    name = quotations.resolve(match["name"])
    value = match["value"] and quotations.resolve(match["value"]).strip()
    if value is None and (pair := KEY_VALUE_PATTERN.fullmatch(name)):
        name = pair["name"]
        value = pair["value"]
    if value is not None and not is_placeholder(match["value"] or match["name"]) and _mentions_pages(value):
        return []  # the value contains a part of a scope that was not understood
    if not re.fullmatch(r"[A-Za-z_][\w-]*", name) or value is None or "\n" in value:
        return [AddField(name, None, scope)] if name in DERIVABLE_FIELDS and value is None else []
    return [AddField(name, value, scope)]
