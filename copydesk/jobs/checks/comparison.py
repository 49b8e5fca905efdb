"""Compares the findings before and after a change: introduced, old, and not judged."""

from collections import Counter
from collections.abc import Iterable, Iterator

from copydesk.jobs.checks.findings import (
    BrokenReference,
    CheckReport,
    Finding,
    Unjudged,
    sort_findings,
)
from copydesk.jobs.checks.renames import find_renames
from copydesk.jobs.checks.snapshot import Snapshot
from copydesk.jobs.pages.page_types import PAGE_EXTENSIONS, extension

Key = tuple[str, str, str]
NAVIGATION_RULES = ("navigation", "orphan")
UNCHECKED_RULES = ("link", "anchor", "image", "include")


def compare_snapshots(before: Snapshot, after: Snapshot) -> CheckReport:
    """Splits the findings of `after` by whether they existed before.

    A reference is an old problem if it did not resolve before either, however it was written then and however sure the
    checks were. A page that has moved keeps its old problems.
    """
    comparison = _Comparison(before, after)
    introduced: list[Finding] = []
    old: list[Finding] = []
    for finding in sort_findings(after.plain_findings):
        (old if comparison.take_plain(finding) else introduced).append(finding)
    unjudged: list[Unjudged] = []
    still_broken: set[tuple[str, str]] = set()
    for page, broken in after.list_broken():
        problem = broken.problem
        finding = Finding(problem.rule, page, broken.line, problem.message)
        still_broken.add((page, _strip_anchor(problem.identity)))
        if comparison.take_broken(page, broken):
            if problem.is_sure:
                old.append(finding)
            elif not comparison.was_written_before(page, broken):
                unjudged.append(Unjudged(problem.rule, page, broken.line, broken.target, problem.doubt))
        elif problem.is_sure or comparison.was_written_before(page, broken):
            introduced.append(finding)  # a doubtful reference that was on the page and not broken did resolve
        else:
            unjudged.append(Unjudged(problem.rule, page, broken.line, broken.target, problem.doubt))
    unjudged += _list_unjudged_files(before, after)
    not_judged = tuple(sorted(set(unjudged)))
    fixed = (each for each in comparison.list_fixed(still_broken) if not _is_unjudged_now(each, after, not_judged))
    return CheckReport(sort_findings(introduced), sort_findings(old), not_judged, sort_findings(fixed))


def list_all_unjudged(snapshot: Snapshot) -> tuple[Unjudged, ...]:
    """Returns everything in a repository's state that the checks cannot judge."""
    references = (
        Unjudged(broken.problem.rule, page, broken.line, broken.target, broken.problem.doubt)
        for page, broken in snapshot.list_broken()
        if broken.problem.doubt
    )
    pages = (each for judged in snapshot.findings_by_page.values() for each in judged.unjudged)
    return tuple(sorted({*references, *pages, *snapshot.navigation.unjudged}))


class _Comparison:
    """The problems before a change, each of which excuses one problem after it."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self._before = before
        self._old_paths = {new: old for old, new in find_renames(before.index, after.index).items()}
        deleted = self._deleted = before.index.files.keys() - after.index.files.keys()
        self._plain = Counter((each.rule, each.path, each.message) for each in before.plain_findings)
        self._plain_in_deleted = Counter(
            (each.rule, each.message) for each in before.plain_findings if each.path in deleted
        )
        self._broken = _BrokenBefore(before, deleted - set(self._old_paths.values()))

    def take_plain(self, finding: Finding) -> bool:
        """Returns whether a finding existed before. Each earlier finding excuses one."""
        return _take(self._plain, (finding.rule, finding.path, finding.message)) or _take(
            self._plain_in_deleted, (finding.rule, finding.message)
        )

    def take_broken(self, page: str, broken: BrokenReference) -> bool:
        return self._broken.take(self._old_path(page), broken, self._old_identity(broken.problem.identity))

    def list_fixed(self, still_broken: set[tuple[str, str]]) -> Iterator[Finding]:
        """Yields the problems that excused none. Call it after all problems of the change were taken.

        `still_broken` has the pages and targets of references that do not resolve, perhaps with another anchor."""
        for finding in self._before.plain_findings:
            if finding.path not in self._deleted and _take(self._plain, (finding.rule, finding.path, finding.message)):
                yield finding
        new_paths = {old: new for new, old in self._old_paths.items()}
        for page, broken in self._broken.list_untaken():
            problem = broken.problem
            if problem.is_sure and (new_paths.get(page, page), _strip_anchor(problem.identity)) not in still_broken:
                yield Finding(problem.rule, page, broken.line, problem.message)

    def was_written_before(self, page: str, broken: BrokenReference) -> bool:
        """Returns whether the same reference was on the page before, in the same words."""
        nav_file = self._before.index.nav_files.get(page)
        if nav_file is not None and any(entry.value == broken.target for entry in nav_file.links):
            return True
        facts = self._before.index.pages.get(self._old_path(page))
        return facts is not None and any(target == broken.target for _, _, target in facts.references)

    def _old_path(self, path: str) -> str:
        return self._old_paths.get(path, path)

    def _old_identity(self, identity: str) -> str:
        path, mark, anchor = identity.partition("#")
        return self._old_path(path) + mark + anchor


class _BrokenBefore:
    """The references that did not resolve before a change, by page and by what they lead to or how they are written."""

    def __init__(self, before: Snapshot, deleted: Iterable[str]) -> None:
        self._before = before
        self._deleted = frozenset(deleted)
        self._counts: Counter[Key] = Counter()
        self._identities: dict[Key, list[Key]] = {}
        for page, broken in before.list_broken():
            key = (page, "", broken.problem.identity)
            self._counts[key] += 1
            self._identities.setdefault((page, "text", broken.target), []).append(key)
            if page in self._deleted:
                self._identities.setdefault(("", broken.problem.rule, broken.target), []).append(key)

    def list_untaken(self) -> Iterator[tuple[str, BrokenReference]]:
        """Yields the references that no problem took, with their pages, except those of deleted pages."""
        for page, broken in self._before.list_broken():
            if page not in self._deleted and _take(self._counts, (page, "", broken.problem.identity)):
                yield page, broken

    def take(self, page: str, broken: BrokenReference, identity: str) -> bool:
        for key in (
            (page, "", identity),
            (page, "", broken.problem.identity),
            *self._identities.get((page, "text", broken.target), ()),
            *self._identities.get(("", broken.problem.rule, broken.target), ()),
        ):
            if _take(self._counts, key):
                return True
        return False


def _take(counts: Counter, key: tuple) -> bool:  # type: ignore[type-arg]
    if counts[key] <= 0:
        return False
    counts[key] -= 1
    return True


def _strip_anchor(identity: str) -> str:
    return identity.partition("#")[0]


def _is_unjudged_now(finding: Finding, after: Snapshot, not_judged: tuple[Unjudged, ...]) -> bool:
    """Returns whether an earlier finding may be missing only because its rule cannot judge the page any longer."""
    was_page = finding.path in after.index.files and after.index.is_page(finding.path)
    if was_page and finding.path not in after.findings_by_page:
        return True
    return any(
        each.rule == finding.rule and (each.path == finding.path or finding.rule in NAVIGATION_RULES)
        for each in not_judged
    )


def _list_unjudged_files(before: Snapshot, after: Snapshot) -> Iterator[Unjudged]:
    """Yields the rules that cannot judge a changed page, or the navigation of a site with a changed page."""
    index = after.index
    changed = {path for path in index.changed if after.scope.contains(path) or path in index.nav_files}
    for path in changed & index.files.keys():
        judged = after.findings_by_page.get(path)
        if judged is not None:
            yield from judged.unjudged
        elif index.is_page(path) and (reason := _explain_unchecked(path)):
            yield from (Unjudged(rule, path, 1, "", reason) for rule in UNCHECKED_RULES)
    if not changed:
        return
    sites = {after.resolver.site_by_page.get(path) for path in changed} | {
        before.resolver.site_by_page.get(path) for path in changed
    }
    configs = {site.config_path for site in sites if site is not None} | changed
    for each in after.navigation.unjudged:
        site = after.navigation.sites.get(each.path)
        if each.path in changed or (site is not None and site.config_path in configs):
            yield each


def _explain_unchecked(path: str) -> str:
    """Returns why a page is not checked; "" for plain text, which has no links."""
    ext = extension(path)
    if ext == ".adoc":
        return "AsciiDoc is not checked"
    if ext == ".txt" or ext not in PAGE_EXTENSIONS:
        return ""
    return "the page is too large, or in a folder of templates or tests"
