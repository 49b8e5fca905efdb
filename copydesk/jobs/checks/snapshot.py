"""All that the checks know of one state of a repository; the next state is made from it by what has changed."""

import posixpath
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cached_property, partial
from typing import TypeVar

import pygit2

from copydesk.jobs.checks.content_cache import kept
from copydesk.jobs.checks.findings import Finding
from copydesk.jobs.checks.parsing import front_matter as matter
from copydesk.jobs.checks.parsing.markdown import body_of, facts_of
from copydesk.jobs.checks.parsing.page_facts import Facts, key_of
from copydesk.jobs.checks.rules.links import Judged, judge
from copydesk.jobs.checks.rules.navigation import navigation
from copydesk.jobs.checks.site.generators import Site
from copydesk.jobs.checks.site.generators import reader_of as site_reader
from copydesk.jobs.checks.site.link_resolver import INDEXES, Places, addresses
from copydesk.jobs.checks.site.nav_files import Listing, listing_of
from copydesk.jobs.checks.site.nav_files import reader_of as listing_reader
from copydesk.jobs.pages.page_types import MARKDOWN, extension, is_page, is_site_page, stem
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.repository_limits import FileTooLarge

T = TypeVar("T")
Files = Mapping[str, pygit2.Oid]
Read = Callable[[str], bytes]
MAX_IGNORED, LONGEST_IGNORED, MAX_DEPTH = 500, 100, 100
"""Lines of a .gitignore, characters of one, and folders within folders that are looked at."""
KINDS = (*MARKDOWN, ".rst")
# Pages made to be wrong, or to be filled in.
NOT_OURS = re.compile(r"(?:^|/)(?:fixtures|testdata|__tests__|__fixtures__|archetypes|_templates)/|^tests?/|\{\{")


@dataclass(frozen=True)
class Scope:
    root: str = ""
    required: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        return not self.root or path.startswith(self.root + "/")


class State:
    def __init__(
        self,
        scope: Scope,
        tree: Tree,
        files: Files,
        read: Read,
        near: "State | None" = None,
        changed: Set[str] | None = None,
    ) -> None:
        """`near` is a state like this one; what has not changed since is taken from it. `changed` may be known."""
        self.scope, self.files, self.tree = scope, files, tree
        if near is None:
            changed = files.keys()
        elif changed is None:
            changed = {path for path, _ in near.files.items() ^ files.items()}

        def renewed(known: Mapping[str, T], make: Callable[[str], T | None]) -> dict[str, T]:
            found = dict(known)
            for path in changed:  # all of them in git's order, in which a pack is read fastest
                found.pop(path, None)
                value = _unless_too_large(make, path) if path in files else None
                if value is not None:
                    found[path] = value
            return found

        self.pages: dict[str, Facts] = renewed(near.pages if near else {}, lambda path: self._facts(path, read))
        self.listings: dict[str, Listing] = renewed(
            near.listings if near else {}, lambda path: self._listing(path, read)
        )
        self.sites: dict[str, Site] = renewed(near.sites if near else {}, lambda path: self._site(path, read))
        self.ignored: re.Pattern[str] = near.ignored if near and ".gitignore" not in changed else _ignored(files, read)
        is_hidden = partial(_is_hidden, tree, self.ignored)  # no method of this: the two would hold each other
        self.places: Places
        if near is not None and self._lies_as(near, changed):
            self.places = near.places.with_pages(files, self.pages, changed, is_hidden)
            self._navigation = near.navigation if self._leads_as(near, changed) else None
        else:
            self.places = Places(files, self.pages, self.sites.values(), is_hidden)
            self._navigation = None
        self.judged = self._judged(near, changed)

    def _lies_as(self, near: "State", changed: Set[str]) -> bool:
        """Whether no file or site has come or gone and no page has got another address or label."""
        pairs = [(near.pages.get(path), self.pages.get(path)) for path in changed]
        return (
            near.files.keys() == self.files.keys()
            and changed.isdisjoint(self.sites.keys() | near.sites.keys())
            and all(
                (old is None and new is None)
                or (old is not None and new is not None and (old.fields, old.labels) == (new.fields, new.labels))
                for old, new in pairs
            )
        )

    def _leads_as(self, near: "State", changed: Set[str]) -> bool:
        """Whether the navigation says the same of the same pages. Some kinds of sites keep it in the pages."""
        in_pages = any(site.kind in ("mdbook", "gitbook", "sphinx") for site in self.places.sites)
        return (
            not in_pages
            and near.ignored == self.ignored
            and changed.isdisjoint(self.listings.keys() | near.listings.keys())
        )

    def _facts(self, path: str, read: Read) -> Facts | None:
        kind = extension(path)
        if kind not in KINDS or not self.scope.holds(path) or not is_page(path) or NOT_OURS.search(path):
            return None
        return kept(self.files[path], kind, lambda: facts_of(kind, read(path)))

    def _listing(self, path: str, read: Read) -> Listing | None:
        if listing_reader(path) is None or not self._concerns(path):
            return None
        return kept(self.files[path], path, lambda: listing_of(path, body_of(read(path))))

    def _site(self, path: str, read: Read) -> Site | None:
        reader = site_reader(path)
        if reader is None or NOT_OURS.search(path) or not self._concerns(path):
            return None
        return kept(self.files[path], f"site {path}", lambda: reader(path, body_of(read(path))))

    def _concerns(self, path: str) -> bool:
        """Whether a configuration may speak of pages in the root: it lies there or above."""
        folder = path.rpartition("/")[0].rpartition(".vitepress")[0].strip("/") or path.rpartition("/")[0]
        return self.scope.holds(path) or not folder or f"{self.scope.root}/".startswith(f"{folder}/")

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return (*(finding for judged in self.judged.values() for finding in judged.findings), *self.navigation)

    @cached_property
    def navigation(self) -> tuple[Finding, ...]:
        if self._navigation is not None:
            return self._navigation
        return tuple(each for each in navigation(self.places, self.listings) if self._counts(each))

    def _counts(self, finding: Finding) -> bool:
        """Navigation outside the root is looked at for what it says of the pages inside."""
        return self.scope.holds(finding.path) or finding.path in self.listings

    def _judged(self, near: "State | None", changed: Set[str]) -> dict[str, Judged]:
        if near is None or near.ignored != self.ignored or not _alike(near.places.sites, self.places.sites):
            self.judged_again: Set[str] = self.pages.keys()
            return {page: self._judge(page, facts) for page, facts in self.pages.items()}
        touched = _touched(near, self, changed)
        self.judged_again = {page for page in changed if page in self.pages}
        if touched:
            self.judged_again |= {page for page, facts in self.pages.items() if not touched.isdisjoint(facts.keys)}
        judged = dict(near.judged)
        for page in near.judged.keys() - self.pages.keys():
            del judged[page]
        judged.update((page, self._judge(page, self.pages[page])) for page in self.judged_again)
        return judged

    def _judge(self, page: str, facts: Facts) -> Judged:
        site = self.places.site_of[page]
        found = list(facts.problems)
        if facts.has_fields:
            if facts.fields and site is not None:
                found += matter.wrong_types(site.kind, facts.fields, facts.field_lines)
            if self.scope.required and is_site_page(page):
                found += matter.missing(facts.fields, self.scope.required)
        judged = judge(self.places, page, facts)
        if not found:
            return judged
        said = (Finding(problem.rule, page, problem.line, problem.message) for problem in found)
        return Judged((*said, *judged.findings), judged.doubtful)


def _unless_too_large(make: Callable[[str], T | None], path: str) -> T | None:
    """A file beyond the bound is there, and nothing is known of what is in it."""
    try:
        return make(path)
    except FileTooLarge:
        return None


def _is_hidden(tree: Tree, ignored: re.Pattern[str], path: str) -> bool:
    """Below a symbolic link or a submodule, or something that a build makes and git ignores."""
    names = path.split("/")
    for end in range(1, min(len(names), MAX_DEPTH) + 1):
        entry = tree.entry("/".join(names[:end]))
        if entry is not None and entry.mode in (0o120000, 0o160000):
            return True
        if entry is None:
            break
    return any(map(ignored.match, set(names[:MAX_DEPTH])))


def _ignored(files: Files, read: Read) -> re.Pattern[str]:
    """Names that git ignores anywhere; what a build makes goes by one of them."""
    text = _unless_too_large(lambda path: body_of(read(path)), ".gitignore") or "" if ".gitignore" in files else ""
    lines = (line.strip().strip("/") for line in text.splitlines()[:MAX_IGNORED])
    named = {line.rpartition("/")[2] for line in lines if line and line[0] not in "#!" and line[-1:] != "*"}
    return re.compile("|".join(translate(name) for name in sorted(named) if len(name) <= LONGEST_IGNORED) or "(?!)")


def _alike(before: list[Site], after: list[Site]) -> bool:
    """Redirects alone do not change where a page looks for others; the redirected addresses are touched names."""
    return [replace(site, redirects=()) for site in before] == [replace(site, redirects=()) for site in after]


def _touched(before: State, after: State, changed: Set[str]) -> set[str]:
    """The names of all that has come, gone, or been given other anchors and addresses."""
    found: set[str] = set()
    for path in changed:
        old, new = before.pages.get(path), after.pages.get(path)
        if (path in before.files) != (path in after.files):
            found |= _names(before, path, old) | _names(after, path, new)
        elif old is not None and new is not None:
            if _calls(before, path, old) != _calls(after, path, new):
                found |= _names(before, path, old) | _names(after, path, new)
            if _face(old) != _face(new):
                found |= {f"# {name}" for name in _names(after, path, new)}
        labels = set(old.labels if old else ()) ^ set(new.labels if new else ())
        found |= (
            {f"ref {label}" for label in labels} | {f"# {label}" for label in labels} | ({"# "} if labels else set())
        )
    found |= {key_of(folder.rpartition("/")[2]) for folder in before.places.folders ^ after.places.folders}
    for old_site, new_site in zip(before.places.sites, after.places.sites, strict=True):
        for redirect in set(old_site.redirects) ^ set(new_site.redirects):
            found |= {key_of(name) for name in re.split(r"[:*(]", redirect)[0].split("/")}
    return found


def _names(state: State, path: str, facts: Facts | None) -> set[str]:
    """Under which keys a reference to this file may go."""
    calls = {path, *(_calls(state, path, facts) if facts else ())}
    if stem(path) in INDEXES:
        calls |= {posixpath.dirname(path), ""}
    return {key_of(name.rpartition("/")[2]) for name in calls}


def _calls(state: State, path: str, facts: Facts) -> set[str]:
    site = state.places.site_of.get(path)
    return set(addresses(site.kind, path, facts)) if site else set()


def _face(facts: Facts) -> tuple[object, ...]:
    """What a link with an anchor sees of a page."""
    return set(facts.anchors), facts.headings, facts.names, facts.open_ended
