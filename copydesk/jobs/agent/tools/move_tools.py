"""Tools that move and delete files, with a redirect from the old address where the site has a place for it."""

from collections.abc import Sequence

from pydantic import Field

from copydesk.jobs.agent.mechanic.structure.delete_page import remove_from_navigation
from copydesk.jobs.agent.tools.tool import Tool, ToolArguments, ToolOutput, ToolRefused, read_existing
from copydesk.jobs.pages.move_page import find_translations, move_page
from copydesk.jobs.pages.redirects import (
    PageAddress,
    RedirectResult,
    add_redirect,
    find_address,
    find_stale_redirects,
)
from copydesk.jobs.pages.site.repository_index import index_workspace
from copydesk.jobs.pages.source_mentions import describe_source_mentions
from copydesk.jobs.workspace.workspace import Workspace, short_hash

MAX_LISTED = 40


class Move(ToolArguments):
    path: str
    to: str
    redirect: bool = False
    """Also add a redirect from the old address, in the form of the site's generator."""


def move(workspace: Workspace, arguments: Move) -> ToolOutput:
    """Renames or moves a file with its translations, and updates every link and navigation entry that leads to it."""
    read_existing(workspace, arguments.path)
    if workspace.exists(arguments.to):
        raise ToolRefused(f"{arguments.to} already exists; choose another name, or delete it first.")
    address = find_address(index_workspace(workspace), arguments.path)
    translations = find_translations(workspace, arguments.path, arguments.to)
    mentions = describe_source_mentions(workspace, arguments.path)
    updated_files = move_page(workspace, arguments.path, arguments.to)
    for translation in translations:
        if workspace.may_change(translation.old) and not workspace.exists(translation.new):
            updated_files += [translation.new, *move_page(workspace, translation.old, translation.new)]
    updated_files[:] = [
        path for path in dict.fromkeys(updated_files) if path != arguments.to and workspace.exists(path)
    ]
    links_note = f" and updated the links in {', '.join(updated_files)}" if updated_files else "; nothing linked to it"
    stale = find_stale_redirects(workspace, address) if address is not None else []
    protected = ", ".join(dict.fromkeys([*updated_files.protected, *stale]))
    tasks = [f"A person must update {protected}: jobs may not change it."] if protected else []
    lines = [" ".join([f"Moved {arguments.path} to {arguments.to}{links_note}.", *tasks])]
    if mentions:
        tasks.append(f"A person must update the links to it in {mentions}.")
        lines.append(f"Links to it in files that are not pages were not changed: {mentions}.")
    if address is not None:
        redirect = _redirect(workspace, address, arguments.to if arguments.redirect else "", updated_files)
        lines.append(redirect.message)
    lines.append(_list_hashes(workspace, [arguments.to, *updated_files]))
    return ToolOutput("\n".join(lines), " ".join(tasks))


class Delete(ToolArguments):
    path: str
    redirect_to: str = Field("", max_length=1000)
    """The page that the old address should lead to, as a path; adds a redirect in the form of the site's generator."""


def delete(workspace: Workspace, arguments: Delete) -> ToolOutput:
    """Deletes a file with its entries in the navigation, and says what still links to it."""
    read_existing(workspace, arguments.path)
    if arguments.redirect_to and (
        arguments.redirect_to == arguments.path or not workspace.exists(arguments.redirect_to)
    ):
        raise ToolRefused(f"There is no other file {arguments.redirect_to} to redirect to.")
    address = find_address(index_workspace(workspace), arguments.path)
    mentions = describe_source_mentions(workspace, arguments.path)
    menus, protected, links = remove_from_navigation(workspace, arguments.path)
    workspace.delete(arguments.path)
    protected += find_stale_redirects(workspace, address) if address is not None else []
    changed_files = list(menus)
    entries = f" and its entries in {', '.join(menus)}" if menus else ""
    lines = [f"Deleted {arguments.path}{entries}."]
    redirect = RedirectResult(None, f"No redirect was added, because {arguments.path} has no known address.")
    if address is not None:
        redirect = _redirect(workspace, address, arguments.redirect_to, changed_files)
    lines += [redirect.message] if address is not None or arguments.redirect_to else []
    if links:
        lines.append(f"Still linked from {_list_limited(links)}. Change these links.")
    if mentions:
        lines.append(f"Still linked from files that are not pages: {mentions}.")
    if protected:
        lines.append(f"A person must update {', '.join(dict.fromkeys(protected))}: jobs may not change it.")
    lines += [_list_hashes(workspace, changed_files)] if changed_files else []
    return ToolOutput("\n".join(lines), redirect.message if arguments.redirect_to and redirect.path is None else "")


def _redirect(workspace: Workspace, old: PageAddress, new_page: str, changed_files: list[str]) -> RedirectResult:
    """Adds the redirect that was asked for, and the file that it changed to `changed_files`."""
    if not new_page:
        return RedirectResult(None, f"Its address {old.address} no longer exists and has no redirect.")
    result = add_redirect(workspace, old, new_page)
    if result.path is not None and result.path not in changed_files:
        changed_files.append(result.path)
    return result


def _list_hashes(workspace: Workspace, paths: Sequence[str]) -> str:
    """Returns the new hashes of changed files, which the next edit of each asks for."""
    return f"New hashes: {_list_limited([f'{path} {short_hash(workspace.read(path))}' for path in paths])}."


def _list_limited(items: Sequence[str]) -> str:
    more = f", and {len(items) - MAX_LISTED:,} more" if len(items) > MAX_LISTED else ""
    return f"{', '.join(items[:MAX_LISTED])}{more}"


MOVE_TOOLS = (Tool.from_function("move", Move, move), Tool.from_function("delete", Delete, delete))
