"""Counts what the rules judge of a change: the references, fields, pages and entries that it adds or affects."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from copydesk.jobs.checks.findings import CheckReport, Finding, Unjudged, is_ignored
from copydesk.jobs.checks.renames import find_renames
from copydesk.jobs.checks.rules.includes import REFERENCE_CHECKS
from copydesk.jobs.checks.rules.navigation import should_be_listed
from copydesk.jobs.checks.snapshot import Snapshot
from copydesk.jobs.pages.page_types import IMAGE_EXTENSIONS, MARKDOWN_NAV_FILES, extension, is_site_page
from copydesk.jobs.pages.parsing.page_facts import collect_dependency_keys
from copydesk.jobs.pages.parsing.references import NumberedReference
from copydesk.jobs.pages.site.link_rewriter import find_referenced_file
from copydesk.jobs.pages.site.paths import split_target

RULES_BY_KIND = {
    "ref": "anchor",
    "name": "anchor",
    "doc": "link",
    "toctree": "navigation",
    "image": "image",
    "figure": "image",
}


Item = tuple[str, str]
"""A rule, and the path of the file with what it judged."""


def count_judged(before: Snapshot, after: Snapshot, report: CheckReport, ignored: Sequence[str]) -> dict[str, int]:
    """Returns how many items of the change each rule judged, without those that `ignored` silences.

    A rule that found a problem judged at least that."""
    old_paths = {new: old for old, new in find_renames(before.index, after.index).items()}
    counts = Counter(_list_references(before, after, old_paths))
    counts.update(_list_page_items(before, after, old_paths))
    counts.update(_list_menu_items(before, after))
    counts -= Counter((each.rule, each.path) for each in report.not_judged if _is_counted(each))
    found = Counter((each.rule, each.path) for each in report.introduced)
    judged: Counter[str] = Counter()
    for rule, path in counts.keys() | found.keys():
        if not is_ignored(Finding(rule, path, 1, ""), ignored):
            judged[rule] += max(counts[rule, path], found[rule, path])
    return dict(judged)


def _is_counted(unjudged: Unjudged) -> bool:
    """Returns whether an item that was not judged is among the counted ones: a reference, or an MDX page."""
    return bool(unjudged.subject) or unjudged.rule == "mdx"


def _list_references(before: Snapshot, after: Snapshot, old_paths: Mapping[str, str]) -> Iterator[Item]:
    """Yields the rule for each reference that is new on its page, or whose target the change affects."""
    for page in after.rechecked_pages:
        broken = after.findings_by_page[page].broken
        missing = {(each.line, each.target) for each in broken if each.problem.rule != "anchor"}
        references = after.index.pages[page].references
        added: list[NumberedReference] = []
        if page in after.index.changed:
            old = before.index.pages.get(page) if page not in old_paths else None
            added = _list_added(references, old.references if old else ())
            references = tuple(set(references).difference(added))
        for reference in added:
            yield from ((rule, page) for rule in _list_rules(page, reference, missing))
        for reference in _select_affected(after, references):
            rules = _list_rules(page, reference, missing)
            yield from ((rule, page) for rule in _select_rules(before, after, page, reference, rules))


def _list_added(references: Iterable[NumberedReference], old: Iterable[NumberedReference]) -> list[NumberedReference]:
    """Returns the references that the page did not have, on any line."""
    known = Counter((kind, target) for _, kind, target in old)
    added = []
    for reference in references:
        known[reference[1:]] -= 1
        if known[reference[1:]] < 0:
            added.append(reference)
    return added


def _select_affected(after: Snapshot, references: Iterable[NumberedReference]) -> Iterator[NumberedReference]:
    """Yields the references that the change may lead elsewhere, or whose anchors may have changed."""
    keys = after.affected_keys
    for reference in references:
        if keys is None or not keys.isdisjoint(collect_dependency_keys([reference])):
            yield reference


def _list_rules(page: str, reference: NumberedReference, missing: Set[tuple[int, str]]) -> list[str]:
    """Returns the rules that judge a reference: a link with an anchor is a link and an anchor, unless it is missing."""
    line, kind, target = reference
    if kind in REFERENCE_CHECKS:
        return [RULES_BY_KIND.get(kind, "include")]
    path, suffix = split_target(target)
    rules = []
    if path:
        is_menu = page.rpartition("/")[2] in MARKDOWN_NAV_FILES
        rules.append("image" if extension(path) in IMAGE_EXTENSIONS else "navigation" if is_menu else "link")
    if suffix.partition("#")[2] and (line, target) not in missing:
        rules.append("anchor")
    return rules


def _select_rules(
    before: Snapshot, after: Snapshot, page: str, reference: NumberedReference, rules: list[str]
) -> list[str]:
    """Returns the rules whose judgment of an earlier reference may differ now."""
    _, kind, target = reference
    file = find_referenced_file(after.resolver, page, kind, target) if after.affected_keys is not None else None
    if file is None or file not in before.index.files:
        return rules
    return [rule for rule in rules if rule == "anchor"] if file in after.index.changed else []


def _list_page_items(before: Snapshot, after: Snapshot, old_paths: Mapping[str, str]) -> Iterator[Item]:
    """Yields the rule for each field, and for each page with fences or MDX, of the changed pages."""
    for page in after.index.changed & after.index.pages.keys():
        facts = after.index.pages[page]
        old = before.index.pages.get(old_paths.get(page, page))
        if facts.is_front_matter_readable:
            old_fields = old.fields if old else {}
            names = {
                name for name, value in facts.fields.items() if name not in old_fields or old_fields[name] != value
            }
            required = after.scope.required_fields if is_site_page(page) else ()
            yield from [("front-matter", page)] * len(names.union(required))
        if facts.has_fences:
            yield "fence", page
        if extension(page) == ".mdx":
            yield "mdx", page


def _list_menu_items(before: Snapshot, after: Snapshot) -> Iterator[Item]:
    """Yields the rule for each new entry and link of a menu, and for each new page that a complete menu must list."""
    for path, nav_file in after.index.nav_files.items():
        old = before.index.nav_files.get(path)
        if nav_file is old:
            continue
        known = Counter(entry.full_value for entry in old.entries) if old else Counter()
        for entry in nav_file.entries:
            known[entry.full_value] -= 1
            if known[entry.full_value] < 0 and entry.is_listed:
                yield "navigation", path
            elif known[entry.full_value] < 0 and entry.is_link:
                rules = _list_rules(path, (entry.line, "link", entry.value), set())
                yield from ((rule, path) for rule in rules)
    for page in after.index.pages.keys() - before.index.pages.keys():
        site = after.resolver.site_by_page[page]
        if any(
            menu.site is site and should_be_listed(after.resolver, site, menu.root, page)
            for menu in after.navigation.complete_menus
        ):
            yield "orphan", page
