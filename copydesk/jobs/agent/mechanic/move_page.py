"""Finds the page that a person means, and the path it is to have."""

import posixpath

from copydesk.jobs.agent.mechanic.instructions import MovePage
from copydesk.jobs.agent.mechanic.plan import Plan, find_page, listed
from copydesk.jobs.pages.page_types import PAGES, extension, is_page
from copydesk.jobs.workspace.workspace import Workspace


def plan(workspace: Workspace, asked: MovePage) -> Plan:
    paths = [path for path in workspace.paths() if workspace.is_documentation(path)]
    found = find_page([path for path in paths if is_page(path)], asked.page) or find_page(paths, asked.page)
    if not found:
        return Plan(notes=[f"There is no page “{asked.page}”; nothing was changed."])
    if len(found) > 1:
        return Plan(
            notes=[f"“{asked.page}” could be any of {listed(found)}; nothing was changed. Give the whole path."]
        )
    page = found[0]
    target = _target(page, asked, paths)
    if target == page:
        return Plan(notes=[f"{page} has that name already."])
    if workspace.exists(target):
        return Plan(notes=[f"{target} exists already; nothing was changed."])
    return Plan(calls=[("move", {"path": page, "to": target})], files=1)


def _target(page: str, asked: MovePage, paths: list[str]) -> str:
    base = _unsaid(page, asked.page)
    to = asked.to.removeprefix("./")
    if base and to != base and not to.startswith(base + "/"):
        to = posixpath.join(base, to)
    into = asked.into_folder or (not asked.beside and not extension(to) and any(p.startswith(to + "/") for p in paths))
    if into:
        if not any(p.startswith(to + "/") for p in paths) and "/" not in asked.to:
            to = _beside_or_above(page, asked.to, paths) or to
        return posixpath.join(to, posixpath.basename(page))
    if asked.beside and "/" not in asked.to:
        to = posixpath.join(posixpath.dirname(page), asked.to)
    return to if extension(to) in PAGES or extension(page) not in PAGES else to + posixpath.splitext(page)[1]


def _unsaid(page: str, said: str) -> str:
    """The leading folders that were left out when the page was named: they are left out of the target too."""
    at = page.lower().rfind(said.lower().removeprefix("./"))
    return page[:at].rstrip("/") if at > 0 else ""


def _beside_or_above(page: str, folder: str, paths: list[str]) -> str | None:
    """An existing folder of this name next to the page or further up."""
    base = posixpath.dirname(page)
    while True:
        candidate = posixpath.join(base, folder)
        if any(path.startswith(candidate + "/") for path in paths):
            return candidate
        if not base:
            return None
        base = posixpath.dirname(base)
