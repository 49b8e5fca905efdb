"""Tools that move and delete files, with a redirect from the old address where the site has a place for it."""

from collections.abc import Sequence

from pydantic import Field

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.tools.tool import Tool, ToolArguments, ToolOutput, ToolRefused, read_existing
from copydesk.jobs.pages.move_page import find_translations, move_page
from copydesk.jobs.pages.redirects import PageAddress, add_redirect, find_address, find_stale_redirects
from copydesk.jobs.pages.site.repository_index import index_workspace
from copydesk.jobs.pages.source_mentions import describe_source_mentions
from copydesk.jobs.workspace.workspace import Workspace, short_hash

MAX_FILES_LISTED = 40


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
        lines.append(_redirect(workspace, address, arguments.to if arguments.redirect else "", updated_files))
    lines.append(_list_hashes(workspace, [arguments.to, *updated_files]))
    return ToolOutput("\n".join(lines), " ".join(tasks))


class Delete(ToolArguments):
    path: str
    redirect_to: str = Field("", max_length=1000)
    """The page that the old address should lead to, as a path; adds a redirect in the form of the site's generator."""


def delete(workspace: Workspace, arguments: Delete) -> ToolOutput:
    """Deletes a file. Links to it are not touched: search for them first."""
    read_existing(workspace, arguments.path)
    if arguments.redirect_to and (
        arguments.redirect_to == arguments.path or not workspace.exists(arguments.redirect_to)
    ):
        raise ToolRefused(f"There is no other file {arguments.redirect_to} to redirect to.")
    address = find_address(index_workspace(workspace), arguments.path)
    workspace.delete(arguments.path)
    lines = [f"Deleted {arguments.path}."]
    changed_files: list[str] = []
    if address is not None:
        lines.append(_redirect(workspace, address, arguments.redirect_to, changed_files))
        lines += [_list_hashes(workspace, changed_files)] if changed_files else []
    elif arguments.redirect_to:
        lines.append(f"No redirect was added, because {arguments.path} has no known address.")
    is_refused = arguments.redirect_to and not changed_files
    return ToolOutput("\n".join(lines), lines[1] if is_refused else "")


def _redirect(workspace: Workspace, old: PageAddress, new_page: str, changed_files: list[str]) -> str:
    """Adds the redirect that was asked for, and the file that it changed to `changed_files`. Returns a sentence."""
    if not new_page:
        return f"Its address {old.address} no longer exists and has no redirect."
    result = add_redirect(workspace, old, new_page)
    if result.path is not None and result.path not in changed_files:
        changed_files.append(result.path)
    return result.message


def _list_hashes(workspace: Workspace, paths: Sequence[str]) -> str:
    """Returns the new hashes of changed files, which the next edit of each asks for."""
    hashes = [f"{path} {short_hash(workspace.read(path))}" for path in paths[:MAX_FILES_LISTED]]
    more = f", and {pluralize(len(paths) - MAX_FILES_LISTED, 'more file')}" if len(paths) > MAX_FILES_LISTED else ""
    return f"New hashes: {', '.join(hashes)}{more}."


MOVE_TOOLS = (Tool.from_function("move", Move, move), Tool.from_function("delete", Delete, delete))
