"""Replaces a word or phrase in the text that people read: not in code, addresses, field names or tags."""

import re
from bisect import bisect_left
from collections import Counter
from itertools import zip_longest
from urllib.parse import unquote

from copydesk.jobs.agent.mechanic.instructions import Replace
from copydesk.jobs.agent.mechanic.phrase_matcher import PhraseMatcher
from copydesk.jobs.agent.mechanic.plan import (
    MAX_FILES,
    EditPlan,
    Edits,
    find_pages,
    join_limited,
    pluralize,
    select_lines,
)
from copydesk.jobs.pages.directives import find_directive_spans, find_underline_edits
from copydesk.jobs.pages.lines import Span, apply_edits, mask_spans
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension, is_page
from copydesk.jobs.pages.parsing import front_matter
from copydesk.jobs.pages.parsing.headings import find_headings
from copydesk.jobs.pages.parsing.page_parser import find_references
from copydesk.jobs.pages.parsing.prose import mask_non_prose
from copydesk.jobs.pages.parsing.references import remove_overlaps
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.link_rewriter import find_referenced_file
from copydesk.jobs.pages.site.paths import split_target
from copydesk.jobs.pages.site.repository_index import index_workspace
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
            underlines = find_underline_edits(body, edits) if extension(path) == ".rst" else []
            edits_by_path[path] = data, edits + underlines
    _update_anchor_links(workspace, edits_by_path, plan)
    for path, (data, edits) in edits_by_path.items():
        plan.add_edits(path, data, edits)
    if count:
        plan.notes.insert(0, f"Found {pluralize(count, 'occurrence')} in {pluralize(len(edits_by_path), 'file')}.")
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
    if "." not in matcher.old:
        protected += [match.span() for match in DOTTED_NAME_PATTERN.finditer(prose_text)]
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


def _update_anchor_links(workspace: Workspace, edits_by_path: dict[str, tuple[bytes, Edits]], plan: EditPlan) -> None:
    """Adds edits of links to changed headings, because the anchor of a heading changes with its text."""
    changed_headings = [path for path, (data, edits) in edits_by_path.items() if _changes_heading(path, data, edits)]
    if not changed_headings:
        return
    resolver = index_workspace(workspace).resolver
    renamed_anchors = {
        path: anchors
        for path in changed_headings
        if (anchors := _find_renamed_anchors(resolver, path, *edits_by_path[path]))
    }
    old_anchors = {old.encode() for anchors in renamed_anchors.values() for old in anchors}
    updated_links = 0
    for path in workspace.paths():
        if extension(path) not in MARKDOWN_EXTENSIONS or not is_page(path) or not workspace.is_documentation(path):
            continue
        if not workspace.is_readable(path):
            continue
        data = workspace.read(path)
        if b"#" not in data or not is_text(data) or not any(old in data for old in old_anchors):
            continue
        edits = _find_anchor_edits(path, DecodedText.decode(data).body, resolver, renamed_anchors)
        if edits and (path in edits_by_path or len(edits_by_path) < MAX_FILES):
            edits_by_path.setdefault(path, (data, []))[1].extend(edits)
            updated_links += len(edits)
    if updated_links:
        plan.notes.append(f"Updated {pluralize(updated_links, 'link')} to the anchors of changed headings.")


def _changes_heading(path: str, data: bytes, edits: Edits) -> bool:
    if extension(path) not in MARKDOWN_EXTENSIONS:
        return False
    body = DecodedText.decode(data).body
    lines = [heading.line for heading in find_headings(body, mask_non_prose(path, body))]
    starts = [line.start for line in lines]
    for start, end, _ in edits:
        index = bisect_left(starts, end) - 1  # the last heading that begins before the edit ends
        if index >= 0 and start < lines[index].end:
            return True
    return False


def _find_renamed_anchors(resolver: LinkResolver, path: str, data: bytes, edits: Edits) -> dict[str, str]:
    slugify = resolver.get_slugify(path)
    before = DecodedText.decode(data).body
    after = apply_edits(before, edits)
    pairs = zip(
        find_headings(before, mask_non_prose(path, before), slugify),
        find_headings(after, mask_non_prose(path, after), slugify),
        strict=False,
    )
    return {old.anchor: new.anchor for old, new in pairs if old.anchor != new.anchor}


def _find_anchor_edits(
    path: str, body: str, resolver: LinkResolver, renamed_anchors: dict[str, dict[str, str]]
) -> Edits:
    edits: Edits = []
    for link in remove_overlaps(each for each in find_references(path, body) if each.kind == "link"):
        link_path, suffix = split_target(link.target)
        file: str | None = path
        if link_path or not suffix.startswith("#"):
            file = find_referenced_file(resolver, path, link.kind, link.target) if link.names_file else None
        hash_index = suffix.find("#")
        anchor = renamed_anchors.get(file or "", {}).get(unquote(suffix[hash_index + 1 :])) if hash_index >= 0 else None
        if anchor:
            edits.append((link.start + len(link_path) + hash_index + 1, link.end, anchor))
    return edits
