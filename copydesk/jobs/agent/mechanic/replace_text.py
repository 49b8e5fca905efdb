"""Replaces a word or phrase in the text that people read: not in code, addresses, field names or tags."""

import re
from collections import Counter
from itertools import zip_longest

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.mechanic.anchor_links import find_name_edits, update_anchor_links
from copydesk.jobs.agent.mechanic.instructions import Replace
from copydesk.jobs.agent.mechanic.phrase_matcher import PhraseMatcher
from copydesk.jobs.agent.mechanic.plan import (
    MAX_FILES,
    EditPlan,
    Edits,
    find_pages,
    join_limited,
    select_lines,
)
from copydesk.jobs.pages.directives import find_directive_spans, find_underline_edits
from copydesk.jobs.pages.lines import Span, apply_edits, mask_spans
from copydesk.jobs.pages.page_types import extension
from copydesk.jobs.pages.parsing import front_matter
from copydesk.jobs.pages.parsing.page_parser import find_references
from copydesk.jobs.pages.parsing.prose import mask_non_prose
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

ADDRESS_PATTERN = re.compile(
    r"\b(?:https?|ftp|mailto):[^\s<>\"')\]]+|(?<![\w.+-])[\w.+-]++@[\w-]+\.[\w.]+|\bwww\.[^\s<>\"')\]]+"
)
# The second alternative consumes a run that is not a path or file name and leaves group 1 unset; without it, every
# position of the run would be tried.
FILE_PATH_PATTERN = re.compile(r"(?<![\w/])(?:((?:[\w.-]++/)+[\w-]+\.\w{1,8}\b)|[\w.-]++(?:/[\w.-]++)*+)")
FILE_NAME_PATTERN = re.compile(r"(?<![\w/.])(?:([\w-]++\.(?:mdx?|html|json|ya?ml|py|js|ts|sh)\b)|[\w-]++)")
TAG_PATTERN = re.compile(r"</?[A-Za-z][^<>]*>")
READABLE_ATTRIBUTE_PATTERN = re.compile(
    r"\s(?:title|alt|label|description|caption|summary|placeholder|aria-label)\s*=\s*(\"[^\"]*\"|'[^']*')"
)
MDX_CODE_PATTERN = re.compile(r"\{[^{}\n]*\}|^(?:import|export)\s.*$", re.M)
DOTTED_NAME_PATTERN = re.compile(r"(?<![\w.])[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)++")
# A name with a linked part, such as `theme.[name]`, and the options of commands.
LINKED_NAME_PATTERN = re.compile(r"(?<![\w.])[A-Za-z_]\w*+\.(?=\[`?[a-z_]\w*`?\])")
OPTION_PATTERN = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*+")
FIELD_KEY_PATTERN = re.compile(r"^[ \t-]*(?P<key>[A-Za-z_][\w-]*)[ \t]*:(?=\s)", re.M)
# Fields that programs read. People read all other fields.
MACHINE_FIELD_PATTERN = re.compile(
    r"(?:id|slug|url|href|link|icon|image|img|layout|permalink|openapi|api|redirect\w*|path|template|type|mode|date|key|ref|src"
    r"|canonical|aliases|sidebar_position|lang|locale|version)$",
    re.I,
)


def plan_replacement(workspace: Workspace, instruction: Replace) -> EditPlan:
    plan = EditPlan()
    matcher = PhraseMatcher(instruction.old, instruction.new)
    edits_by_path: dict[str, tuple[bytes, Edits]] = {}
    near_matches: Counter[str] = Counter()
    count = 0
    for path in find_pages(workspace, instruction.scope, plan):
        data = workspace.read(path)
        if not is_text(data) or not matcher.may_occur(data):
            continue
        body = DecodedText.decode(data).body
        visible = _mask_unchangeable(path, body, matcher, instruction.scope.code)
        edits = select_lines(body, _find_edits(path, body, visible, matcher, plan), instruction.scope)
        if instruction.scope.lines is None:
            near_matches.update(matcher.find_near_matches(body, visible))
        if edits and len(edits_by_path) >= MAX_FILES:
            plan.note_limit_reached()
            break
        if edits:
            count += len(edits)
            if extension(path) == ".rst":
                edits += [*find_underline_edits(body, edits), *find_name_edits(body, edits)]
            edits_by_path[path] = data, edits
    file_count = len(edits_by_path)
    update_anchor_links(workspace, edits_by_path, plan)
    for path, (data, edits) in edits_by_path.items():
        plan.add_edits(path, data, edits)
    if count:
        plan.notes.insert(0, f"Found {pluralize(count, 'occurrence')} in {pluralize(file_count, 'file')}.")
    elif not plan.notes:
        place = f" {instruction.scope}" if instruction.scope.lines else ""
        plan.notes.append(f"“{instruction.old}” was not found in any text that may be changed{place}.")
    if near_matches:
        words = [f"{word} ({number})" for word, number in near_matches.most_common()]
        plan.notes.append(
            f"Left unchanged, because only the whole “{instruction.old}” was asked for: {join_limited(words, 10)}."
        )
    return plan


def _mask_unchangeable(path: str, body: str, matcher: PhraseMatcher, include_code: bool) -> str:
    """Replaces the front matter and everything that must not change with spaces."""
    prose_text = mask_non_prose(path, body)
    protected = _protected_spans(path, body, prose_text)
    names = (DOTTED_NAME_PATTERN, LINKED_NAME_PATTERN) if "." not in matcher.old else ()
    options = (OPTION_PATTERN,) if "--" not in matcher.old else ()
    protected += [match.span() for pattern in (*names, *options) for match in pattern.finditer(prose_text)]
    visible = mask_spans(body if include_code else prose_text, protected)
    matter = front_matter.parse_front_matter(body)
    if matter:
        visible = mask_spans(body[: matter.body_start], [(0, matter.body_start)]) + visible[matter.body_start :]
    return visible


def _find_edits(path: str, body: str, visible: str, matcher: PhraseMatcher, plan: EditPlan) -> Edits:
    matter = front_matter.parse_front_matter(body)
    edits, split_count = matcher.find_edits(body, visible)
    if split_count:
        plan.notes.append(f"Not changed in {path}: {pluralize(split_count, 'occurrence')} broken across two lines.")
    if matter and matter.is_editable:
        edits += _find_field_edits(path, body, matter, matcher, plan)
    return edits


def _protected_spans(path: str, body: str, prose_text: str) -> list[Span]:
    """Returns the spans that must not change: link targets, addresses, file names, tags, directives and MDX code."""
    spans = [(reference.start, reference.end) for reference in find_references(path, body)]
    spans += find_directive_spans(path, prose_text)
    spans += _find_addresses(prose_text)
    if extension(path) == ".mdx":
        spans += [match.span() for match in MDX_CODE_PATTERN.finditer(prose_text)]
    for tag in TAG_PATTERN.finditer(prose_text):
        position = tag.start()
        for attribute in READABLE_ATTRIBUTE_PATTERN.finditer(prose_text, tag.start(), tag.end()):
            spans.append((position, attribute.start(1)))
            position = attribute.end(1)
        spans.append((position, tag.end()))
    return spans


def _find_addresses(text: str) -> list[Span]:
    files = [match for pattern in (FILE_PATH_PATTERN, FILE_NAME_PATTERN) for match in pattern.finditer(text)]
    return [*(match.span() for match in ADDRESS_PATTERN.finditer(text)), *(match.span() for match in files if match[1])]


def _find_field_edits(
    path: str, body: str, matter: front_matter.FrontMatter, matcher: PhraseMatcher, plan: EditPlan
) -> Edits:
    """Returns the edits of the values that people read; none, with a note, if they would change the field names."""
    hidden: list[Span] = [(0, matter.fields_start), (matter.fields_end, matter.body_start)]
    keys = list(FIELD_KEY_PATTERN.finditer(body, matter.fields_start, matter.fields_end))
    for key, following in zip_longest(keys, keys[1:]):
        end = following.start() if following else matter.fields_end
        hidden.append((key.start(), end if MACHINE_FIELD_PATTERN.match(key["key"]) else key.end()))
    block = body[: matter.body_start]
    visible = mask_spans(block, hidden)
    visible = mask_spans(visible, _find_addresses(visible))
    edits, _ = matcher.find_edits(block, visible)
    after = front_matter.parse_front_matter(apply_edits(block, edits)) if edits else matter
    if after is None or not after.is_editable or after.keys != matter.keys:
        plan.notes.append(f"{path}: the front matter was not changed, because it would no longer be valid.")
        return []
    return edits
