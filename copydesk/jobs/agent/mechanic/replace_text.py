"""Replaces a word or phrase in what people read: not in code, addresses, field names or tags."""

import re
from itertools import zip_longest
from urllib.parse import unquote

from copydesk.jobs.agent.mechanic.instructions import Replace
from copydesk.jobs.agent.mechanic.phrase_matcher import Wording
from copydesk.jobs.agent.mechanic.plan import MOST_FILES, Edits, Plan, counted, pages_in
from copydesk.jobs.pages import front_matter as frontmatter
from copydesk.jobs.pages.headings import headings
from copydesk.jobs.pages.lines import Span, blanked, spliced
from copydesk.jobs.pages.link_targets import Site, split
from copydesk.jobs.pages.links import links
from copydesk.jobs.pages.page_types import MARKDOWN, extension, is_page
from copydesk.jobs.pages.prose import prose
from copydesk.jobs.workspace.text_edits import Text, is_text
from copydesk.jobs.workspace.workspace import Workspace

ADDRESS = re.compile(
    r"\b(?:https?|ftp|mailto):[^\s<>\"')\]]+|(?<![\w.+-])[\w.+-]++@[\w-]+\.[\w.]+|\bwww\.[^\s<>\"')\]]+"
)
# Of a run of characters that is none, each place would be tried: it is taken as a whole, without the group.
FILE_PATH = re.compile(r"(?<![\w/])(?:((?:[\w.-]++/)+[\w-]+\.\w{1,8}\b)|[\w.-]++(?:/[\w.-]++)*+)")
FILE_NAME = re.compile(r"(?<![\w/.])(?:([\w-]++\.(?:mdx?|html|json|ya?ml|py|js|ts|sh)\b)|[\w-]++)")
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
READ_ALOUD = re.compile(
    r"\s(?:title|alt|label|description|caption|summary|placeholder|aria-label)\s*=\s*(\"[^\"]*\"|'[^']*')"
)
MDX = re.compile(r"\{[^{}\n]*\}|^(?:import|export)\s.*$", re.M)
DIRECTIVE = re.compile(r"^[ \t]*(?:\.\. [\w:-]+::|:[\w-]+:|!!!\s*\w+|\?\?\?\+?\s*\w+|:::\s*\w+)", re.M)
FIELD = re.compile(r"^[ \t-]*(?P<key>[A-Za-z_][\w-]*)[ \t]*:(?=\s)", re.M)
# Fields that programs read; people read the others.
FOR_PROGRAMS = re.compile(
    r"(?:id|slug|url|href|link|icon|image|img|layout|permalink|openapi|api|redirect\w*|path|template|type|mode|date|key|ref|src"
    r"|canonical|aliases|sidebar_position|lang|locale|version)$",
    re.I,
)


def plan(workspace: Workspace, asked: Replace) -> Plan:
    made = Plan()
    wording = Wording(asked.old, asked.new)
    found: dict[str, tuple[bytes, Edits]] = {}
    count = 0
    for path in pages_in(workspace, asked.scope, made):
        data = workspace.read(path)
        if not is_text(data) or not wording.may_occur(data):
            continue
        edits = _edits(path, Text.of(data).body, wording, asked.scope.code, made)
        if edits and len(found) >= MOST_FILES:
            made.note_rest()
            break
        if edits:
            found[path] = data, edits
            count += len(edits)
    _follow_anchors(workspace, found, made)
    for path, (data, edits) in found.items():
        made.edit(path, data, edits)
    if count:
        made.notes.insert(0, f"Found {counted(count, 'occurrence')} in {counted(len(found), 'file')}.")
    elif not made.notes:
        made.notes.append(f"“{asked.old}” occurs nowhere that was to be changed.")
    return made


def _edits(path: str, body: str, wording: Wording, code: bool, made: Plan) -> Edits:
    shown = prose(path, body)
    visible = blanked(body if code else shown, _kept(path, body, shown))
    matter = frontmatter.find(body)
    if matter:
        visible = blanked(body[: matter.stop], [(0, matter.stop)]) + visible[matter.stop :]
    edits, broken = wording.occurrences(body, visible)
    if broken:
        made.notes.append(f"{path}: {counted(broken, 'occurrence')} broken across two lines left as it is.")
    if matter and matter.fields is not None:
        edits += _field_edits(path, body, matter, wording, made)
    return edits


def _kept(path: str, body: str, shown: str) -> list[Span]:
    """Addresses, file names, tags and what a template fills in."""
    spans = [(link.start, link.end) for link in links(path, body, shown)]
    spans += [match.span() for match in DIRECTIVE.finditer(shown)]
    spans += _addresses(shown)
    if extension(path) == ".mdx":
        spans += [match.span() for match in MDX.finditer(shown)]
    for tag in TAG.finditer(shown):
        position = tag.start()
        for attribute in READ_ALOUD.finditer(shown, tag.start(), tag.end()):
            spans.append((position, attribute.start(1)))
            position = attribute.end(1)
        spans.append((position, tag.end()))
    return spans


def _addresses(text: str) -> list[Span]:
    files = [match for pattern in (FILE_PATH, FILE_NAME) for match in pattern.finditer(text)]
    return [*(match.span() for match in ADDRESS.finditer(text)), *(match.span() for match in files if match[1])]


def _field_edits(path: str, body: str, matter: frontmatter.FrontMatter, wording: Wording, made: Plan) -> Edits:
    """In the values that people read, and only if the block still says the same fields."""
    hidden: list[Span] = [(0, matter.start), (matter.end, matter.stop)]
    keys = list(FIELD.finditer(body, matter.start, matter.end))
    for key, following in zip_longest(keys, keys[1:]):
        end = following.start() if following else matter.end
        hidden.append((key.start(), end if FOR_PROGRAMS.match(key["key"]) else key.end()))
    block = body[: matter.stop]
    visible = blanked(block, hidden)
    visible = blanked(visible, _addresses(visible))
    edits, _ = wording.occurrences(block, visible)
    after = frontmatter.find(spliced(block, edits)) if edits else matter
    if after is None or after.fields is None or after.keys != matter.keys:
        made.notes.append(f"{path}: the front matter was left as it is, since it would no longer be valid.")
        return []
    return edits


def _follow_anchors(workspace: Workspace, found: dict[str, tuple[bytes, Edits]], made: Plan) -> None:
    """A heading that changes takes its anchor with it, so links to the old anchor are changed too."""
    renamed = {path: anchors for path, (data, edits) in found.items() if (anchors := _renamed(path, data, edits))}
    if not renamed:
        return
    site = Site(workspace.paths())
    olds = {old.encode() for anchors in renamed.values() for old in anchors}
    followed = 0
    for path in sorted(site.paths):
        if extension(path) not in MARKDOWN or not is_page(path) or not workspace.is_documentation(path):
            continue
        if not workspace.is_readable(path):
            continue
        data = workspace.read(path)
        if b"#" not in data or not is_text(data) or not any(old in data for old in olds):
            continue
        edits = _anchor_edits(path, Text.of(data).body, site, renamed)
        if edits and (path in found or len(found) < MOST_FILES):
            found.setdefault(path, (data, []))[1].extend(edits)
            followed += len(edits)
    if followed:
        made.notes.append(f"Headings changed, so {counted(followed, 'link')} to their anchors changed with them.")


def _renamed(path: str, data: bytes, edits: Edits) -> dict[str, str]:
    if extension(path) not in MARKDOWN:
        return {}
    before = Text.of(data).body
    after = spliced(before, edits)
    pairs = zip(headings(before, prose(path, before)), headings(after, prose(path, after)), strict=False)
    return {old.anchor: new.anchor for old, new in pairs if old.anchor != new.anchor}


def _anchor_edits(path: str, body: str, site: Site, renamed: dict[str, dict[str, str]]) -> Edits:
    edits: Edits = []
    for link in links(path, body):
        written, suffix = split(link.target)
        resolved = site.resolve(path, link.target) if link.is_internal else None
        file = path if not written and suffix.startswith("#") else resolved.file if resolved else ""
        mark = suffix.find("#")
        anchor = renamed.get(file, {}).get(unquote(suffix[mark + 1 :])) if mark >= 0 else None
        if anchor:
            edits.append((link.start + len(written) + mark + 1, link.end, anchor))
    return edits
