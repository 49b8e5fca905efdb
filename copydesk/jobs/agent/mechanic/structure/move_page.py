"""Plans the move of a page: finds the page that the prompt names, and its new path."""

import posixpath

from copydesk.jobs.agent.mechanic.instructions import MovePage
from copydesk.jobs.agent.mechanic.plan import EditPlan, find_page_candidates, join_limited
from copydesk.jobs.pages.page_types import PAGE_EXTENSIONS, extension
from copydesk.jobs.pages.site.repository_index import list_pages
from copydesk.jobs.workspace.workspace import Workspace


def plan_move(workspace: Workspace, instruction: MovePage) -> EditPlan:
    paths = [path for path in workspace.paths() if workspace.is_documentation(path)]
    candidates = find_page_candidates(list_pages(workspace), instruction.page) or find_page_candidates(
        paths, instruction.page
    )
    if not candidates:
        return EditPlan(notes=[f"There is no page “{instruction.page}”. Nothing was changed."])
    if len(candidates) > 1:
        return EditPlan(
            notes=[
                f"“{instruction.page}” could be any of {join_limited(candidates)}. Nothing was changed."
                " Give the full path."
            ]
        )
    page = candidates[0]
    target = _resolve_target(page, instruction, paths)
    if target == page:
        return EditPlan(notes=[f"{page} already has that name."])
    if workspace.exists(target):
        return EditPlan(notes=[f"{target} already exists. Nothing was changed."])
    return EditPlan(calls=[("move", {"path": page, "to": target})], file_count=1)


def _resolve_target(page: str, instruction: MovePage, paths: list[str]) -> str:
    base = _omitted_prefix(page, instruction.page)
    to = instruction.to.removeprefix("./")
    if base and to != base and not to.startswith(base + "/"):
        to = posixpath.join(base, to)
    into_folder = instruction.into_folder or (
        not instruction.same_folder and not extension(to) and any(p.startswith(to + "/") for p in paths)
    )
    if into_folder:
        if not any(p.startswith(to + "/") for p in paths) and "/" not in instruction.to:
            to = _find_folder_upward(page, instruction.to, paths) or to
        return posixpath.join(to, posixpath.basename(page))
    if instruction.same_folder and "/" not in instruction.to:
        to = posixpath.join(posixpath.dirname(page), instruction.to)
    return (
        to
        if extension(to) in PAGE_EXTENSIONS or extension(page) not in PAGE_EXTENSIONS
        else to + posixpath.splitext(page)[1]
    )


def _omitted_prefix(page: str, name: str) -> str:
    """Returns the leading folders that the prompt omits from the page's path; it omits them from the target too."""
    index = page.lower().rfind(name.lower().removeprefix("./"))
    return page[:index].rstrip("/") if index > 0 else ""


def _find_folder_upward(page: str, folder: str, paths: list[str]) -> str | None:
    """Returns an existing folder of this name next to the page or further up, or None."""
    base = posixpath.dirname(page)
    while True:
        candidate = posixpath.join(base, folder)
        if any(path.startswith(candidate + "/") for path in paths):
            return candidate
        if not base:
            return None
        base = posixpath.dirname(base)
