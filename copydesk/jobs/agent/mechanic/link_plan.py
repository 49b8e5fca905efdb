"""Plans the fixes of broken links in pages and navigation files, and lists the links that it leaves."""

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.mechanic.fix_links import LinkFixer
from copydesk.jobs.agent.mechanic.instructions import FixLinks
from copydesk.jobs.agent.mechanic.nav_links import plan_nav_fixes
from copydesk.jobs.agent.mechanic.plan import EditPlan, find_pages, join_limited, select_lines
from copydesk.jobs.checks.findings import Unjudged
from copydesk.jobs.pages.page_types import extension
from copydesk.jobs.pages.site.repository_index import index_workspace
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

MAX_LISTED_LINKS, MAX_UNJUDGED_LINKS = 100, 50
"""Limits the links that the summary lists for one reason: those that need a person, and those that were not judged."""


def plan_link_fixes(workspace: Workspace, instruction: FixLinks) -> EditPlan:
    plan = EditPlan()
    index = index_workspace(workspace)
    fixer = LinkFixer(index.resolver)
    fixed = 0
    unread: list[str] = []
    pages = find_pages(workspace, instruction.scope, plan)
    if plan.notes:  # a place is not clear
        return plan
    for path in pages:
        data = workspace.read(path)
        if not is_text(data) or extension(path) == ".txt":
            continue
        if not fixer.can_judge(path):
            unread.append(path)
            continue
        body = DecodedText.decode(data).body
        edits = select_lines(body, fixer.find_edits(path, body, instruction.scope), instruction.scope)
        if edits and plan.is_full:
            plan.note_limit_reached()
            break
        if edits and plan.add_edits(path, data, edits):
            fixed += len(edits)
    fixed += plan_nav_fixes(workspace, index.nav_files, fixer, instruction.scope, plan)
    if fixed:
        plan.notes.insert(0, f"Fixed {pluralize(fixed, 'link')} in {pluralize(plan.file_count, 'file')}.")
    elif not plan.notes:
        plan.notes.append(_describe_no_fix(fixer, unread))
    if fixer.undecided:
        plan.notes.append(f"Needs a person, because no single target is clear: {_join_all(fixer.undecided)}.")
    if fixer.protected:
        plan.notes.append(f"Needs a person, because jobs may not change the file: {_join_all(fixer.protected)}.")
    if fixer.unjudged:
        plan.notes.append(_describe_unjudged(fixer.unjudged))
    if unread:
        plan.notes.append(f"Not checked, because the checks do not read these pages: {join_limited(unread)}.")
    return plan


def _join_all(places: list[str]) -> str:
    return join_limited(places, MAX_LISTED_LINKS)


def _describe_no_fix(fixer: LinkFixer, unread: list[str]) -> str:
    if fixer.undecided or fixer.protected:
        return "No broken link could be fixed."
    if fixer.unjudged or unread:
        return "No link is surely broken, but not every link could be judged."
    return "No broken link was found."


def _describe_unjudged(unjudged: list[Unjudged]) -> str:
    """Returns one sentence with the links that were not judged, by the reason."""
    groups: dict[str, list[Unjudged]] = {}
    for each in unjudged:
        groups.setdefault(each.reason, []).append(each)
    parts = []
    for reason, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        places = join_limited(
            [f"{each.path}:{each.line} {each.subject}".rstrip() for each in group], MAX_UNJUDGED_LINKS
        )
        parts.append(f"{pluralize(len(group), _name_subject(group))} because {reason} ({places})")
    return f"Not judged: {'; '.join(parts)}."


def _name_subject(group: list[Unjudged]) -> str:
    if not any(each.subject for each in group):
        return "navigation file"
    return "reference" if any(each.rule == "include" for each in group) else "link"
