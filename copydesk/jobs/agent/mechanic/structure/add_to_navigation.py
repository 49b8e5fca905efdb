"""Plans an entry of a page in the navigation: in docs.json, mkdocs.yml, sidebars, SUMMARY.md or a table of contents."""

import json
import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from copydesk.jobs.agent.mechanic.instructions import AddToNavigation
from copydesk.jobs.agent.mechanic.plan import EditPlan, join_limited
from copydesk.jobs.agent.mechanic.structure.delete_page import TITLE_PATTERN, find_one_page
from copydesk.jobs.agent.mechanic.structure.list_edits import (
    Edit,
    find_element,
    find_subtree_end,
    insert_after_element,
    insert_line,
)
from copydesk.jobs.pages.lines import line_at, split_lines
from copydesk.jobs.pages.page_types import MARKDOWN_NAV_FILES, strip_extension
from copydesk.jobs.pages.parsing import front_matter
from copydesk.jobs.pages.parsing.page_parser import find_references
from copydesk.jobs.pages.site.link_rewriter import find_referenced_file, relative_path
from copydesk.jobs.pages.site.nav_entries import find_entry_file
from copydesk.jobs.pages.site.repository_index import RepositoryIndex, index_workspace
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

WHERE_HINT = "Say after which page it belongs: “… after guides/start.md”."


class ListedPage(NamedTuple):
    """A place where a page is listed."""

    nav_path: str
    position: int
    """Where the entry's value begins."""
    value: str
    """The value as written."""
    file: str


def plan_nav_entry(workspace: Workspace, instruction: AddToNavigation) -> EditPlan:
    plan = EditPlan()
    page = find_one_page(workspace, instruction.page, plan)
    if page is None:
        return plan
    index = index_workspace(workspace)
    listed = list(_list_pages(workspace, index))
    if any(each.file == page for each in listed):
        place = next(each.nav_path for each in listed if each.file == page)
        plan.notes.append(f"{place} already lists {page}.")
        return plan
    if not listed:
        plan.notes.append("No navigation file lists pages in a form that can be edited. Nothing was changed.")
        return plan
    neighbor = _find_neighbor(workspace, instruction, page, listed, plan)
    if neighbor is None:
        return plan
    nav_path = neighbor.nav_path
    if not workspace.may_change(nav_path):
        plan.notes.append(f"A person must add {page} to {nav_path}: jobs may not change it. Nothing was changed.")
        return plan
    data = workspace.read(nav_path)
    title = instruction.title or _find_title(workspace, page)
    edit = _build_edit(index, DecodedText.decode(data).body, neighbor, page, title, bool(instruction.title))
    if edit is None:
        plan.notes.append(f"{page} cannot be listed next to {neighbor.file} in {nav_path}. Nothing was changed.")
    elif plan.add_edits(nav_path, data, [edit]):
        plan.notes.append(f"Listed {page} after {neighbor.file} in {nav_path}.")
    return plan


def _list_pages(workspace: Workspace, index: RepositoryIndex) -> Iterator[ListedPage]:
    for path, nav_file in index.nav_files.items():
        # Menus of VitePress in files of their own are read as links.
        for entry in nav_file.entries if ".vitepress/" in path else nav_file.listed:
            file = find_entry_file(index.resolver, path, entry.full_value) if entry.span else None
            if file is not None and entry.span is not None and "#" not in entry.value:
                yield ListedPage(path, entry.span[0], entry.value, file)
    for path in index.pages:
        is_summary = path.rpartition("/")[2] in MARKDOWN_NAV_FILES
        has_toctree = any(kind == "toctree" for _, kind, _ in index.pages[path].references)
        if not (is_summary or has_toctree) or not workspace.is_readable(path):
            continue
        data = workspace.read(path)
        for reference in find_references(path, DecodedText.decode(data).body) if is_text(data) else ():
            if reference.kind == "toctree" or (is_summary and reference.kind == "link" and reference.names_file):
                file = find_referenced_file(index.resolver, path, reference.kind, reference.target)
                if file is not None:
                    yield ListedPage(path, reference.start, reference.target, file)


def _find_neighbor(
    workspace: Workspace, instruction: AddToNavigation, page: str, listed: list[ListedPage], plan: EditPlan
) -> ListedPage | None:
    """Returns the entry after which the page belongs: the named one, the last of the named group, or of its folder."""
    if instruction.after:
        matches = [each for each in listed if _is_named(workspace, each, instruction.after)]
        named = f"“{instruction.after}”"
    elif instruction.under:
        matches = _find_group(workspace, listed, instruction.under)[-1:]
        named = f"a group “{instruction.under}” with pages"
    else:
        folder = posixpath.dirname(page)
        matches = [each for each in listed if posixpath.dirname(each.file) == folder][-1:]
        named = f"another page of {folder or 'this folder'}"
    if len(matches) == 1:
        return matches[0]
    if matches:
        places = [f"{each.nav_path}: {each.value}" for each in matches]
        plan.notes.append(f"{named} is listed several times: {join_limited(places)}. Nothing was changed.")
    else:
        plan.notes.append(f"The navigation does not list {named}. Nothing was changed. {WHERE_HINT}")
    return None


def _is_named(workspace: Workspace, entry: ListedPage, name: str) -> bool:
    wanted = name.strip().strip("/").casefold()
    paths = (entry.file.casefold(), strip_extension(entry.file).casefold())
    if any(path == wanted or path.endswith(f"/{wanted}") for path in paths):
        return True
    line = _line_text(workspace, entry)
    label = re.search(r"-\s+[\"']?(.+?)[\"']?:\s|\[([^\]]+)\]\(|^\s*(.+?)\s*<[^<>]+>\s*$", line)
    texts = [group for group in label.groups() if group] if label else []
    return wanted in (text.strip().casefold() for text in (*texts, _find_title(workspace, entry.file)))


def _line_text(workspace: Workspace, entry: ListedPage) -> str:
    return line_at(split_lines(DecodedText.decode(workspace.read(entry.nav_path)).body), entry.position).text


def _find_group(workspace: Workspace, listed: list[ListedPage], name: str) -> list[ListedPage]:
    """Returns the entries of the group, section or part with this name."""
    wanted = re.escape(name.strip())
    heading = re.compile(
        rf"(?:group|label|tab|anchor)[\"']?\s*:\s*([\"']){wanted}\1|^[ \t]*-[ ]+[\"']?{wanted}[\"']?:[ \t]*\r?$"
        rf"|^#+[ ]+{wanted}[ \t]*\r?$|:caption:[ \t]*{wanted}[ \t]*\r?$",
        re.I | re.M,
    )
    for path in dict.fromkeys(each.nav_path for each in listed):
        body = DecodedText.decode(workspace.read(path)).body
        match = heading.search(body)
        if match is None:
            continue
        start, end = _find_group_span(path, body, match)
        return [each for each in listed if each.nav_path == path and start <= each.position < end]
    return []


def _find_group_span(path: str, body: str, heading: re.Match[str]) -> tuple[int, int]:
    if path.endswith((".yml", ".yaml")):
        lines = split_lines(body)
        index = line_at(lines, heading.start()).number - 1
        index += lines[index].is_blank
        end = find_subtree_end(lines, index)
        return heading.start(), lines[end].start if end < len(lines) else len(body)
    element = find_element(body, heading.start()) if path.endswith((".json", ".js", ".ts", ".mjs", ".cjs")) else None
    if element is not None:
        return element.start, element.end
    following = re.compile(r"^#+[ ]|^---|toctree", re.M).search(body, heading.end())
    return heading.end(), following.start() if following else len(body)


def _find_title(workspace: Workspace, page: str) -> str:
    body = DecodedText.decode(workspace.read(page)).body.replace("\r\n", "\n")
    matter = front_matter.parse_front_matter(body)
    title = matter.fields.get("title") if matter and matter.fields else None
    match = TITLE_PATTERN.search(body, matter.body_start if matter else 0)
    return title if isinstance(title, str) else (match[1] or match[2]).strip() if match else ""


def _build_edit(
    index: RepositoryIndex, body: str, neighbor: ListedPage, page: str, title: str, is_titled: bool
) -> Edit | None:
    value = _build_value(index, neighbor, page)
    if value is None:
        return None
    lines = split_lines(body)
    number = line_at(lines, neighbor.position).number - 1
    line = lines[number]
    before = line.text[: neighbor.position - line.start]
    name = posixpath.basename(neighbor.nav_path)
    if name.endswith((".yml", ".yaml")):
        dash = re.match(r"[ \t]*-[ \t]+", line.text)
        if dash is None:
            return None
        has_title = is_titled or re.search(r":[ \t]+[\"']?$", before) is not None
        key = json.dumps(title, ensure_ascii=False) if re.search(r"[:#\"'\[\]{}]", title) else title
        return insert_line(lines, number + 1, body, f"{dash[0]}{f'{key}: ' if has_title and title else ''}{value}")
    if name in MARKDOWN_NAV_FILES:
        opening = re.match(r"[ \t]*(?:[-*+][ \t]+)?", line.text)
        lead = opening[0] if opening else ""
        end = find_subtree_end(lines, number) if lead.strip() else number + 1
        return insert_line(lines, end, body, f"{lead}[{title or posixpath.basename(page)}]({value})")
    if name.endswith((".rst", ".md")):
        indent = line.text[: line.indent]
        return insert_line(lines, number + 1, body, indent + (f"{title} <{value}>" if is_titled else value))
    element = find_element(body, neighbor.position)
    quote = body[neighbor.position - 1]
    if element is None or quote not in "\"'":
        return None
    if ".vitepress/" in neighbor.nav_path:
        return insert_after_element(body, element, f"{{ text: {quote}{title}{quote}, link: {quote}{value}{quote} }}")
    return insert_after_element(body, element, f"{quote}{value}{quote}")


def _build_value(index: RepositoryIndex, neighbor: ListedPage, page: str) -> str | None:
    """Returns the entry of the page in the style of its neighbor; None if no such entry leads to the page."""
    name = posixpath.basename(neighbor.nav_path)
    value = neighbor.value.strip()
    if name in MARKDOWN_NAV_FILES or name.endswith((".rst", ".md")):
        kind = "link" if name in MARKDOWN_NAV_FILES else "toctree"
        target = relative_path(page, posixpath.dirname(neighbor.nav_path), value)
        if kind == "toctree" and not value.endswith((".rst", ".md")):
            target = strip_extension(target)
        candidates = [target]
        if kind == "toctree" and value.startswith("/"):
            candidates.append(_replace_path(value, neighbor.file, page))
        return next(
            (
                each
                for each in candidates
                if find_referenced_file(index.resolver, neighbor.nav_path, kind, each) == page
            ),
            None,
        )
    path = _replace_path(value, neighbor.file, page)
    site = index.resolver.site_by_page.get(page)
    ids = index.resolver.list_page_addresses(page) if site is not None and site.kind == "docusaurus" else []
    has_id = bool(ids) and bool(index.pages[page].fields.get("id"))
    candidates = [*(ids[:1] if has_id else []), path, strip_extension(path), *ids]
    for candidate in candidates:
        if candidate and find_entry_file(index.resolver, neighbor.nav_path, candidate) == page:
            return candidate
    return None


def _replace_path(value: str, old: str, new: str) -> str:
    """Returns the value with the new file's path, which leaves out the same leading folders and ending."""
    lead = "/" if value.startswith("/") else ""
    name = value.strip("/")
    has_extension = name == old or old.endswith(f"/{name}")
    base = old.removesuffix(name if has_extension else name + old[len(strip_extension(old)) :])
    if not new.startswith(base):
        return ""
    return lead + (new[len(base) :] if has_extension else strip_extension(new[len(base) :]))
