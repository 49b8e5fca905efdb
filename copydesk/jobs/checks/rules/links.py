"""Links, anchors, images, includes and imports of a page: whether what they name is there."""

import posixpath
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from copydesk.jobs.checks.findings import Finding, Said
from copydesk.jobs.checks.parsing.page_facts import Facts
from copydesk.jobs.checks.rules.includes import INCLUDES
from copydesk.jobs.checks.site.generators import Site
from copydesk.jobs.checks.site.link_resolver import Places
from copydesk.jobs.pages.link_targets import split
from copydesk.jobs.pages.page_types import LISTS, MARKDOWN, extension

IMAGES = frozenset((".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".avif"))
FILES = frozenset(
    (".pdf", ".zip", ".py", ".ts", ".tsx", ".go", ".rs", ".java", ".sh", ".yml", ".yaml", ".toml", ".csv")
)
BY_FILE = frozenset((*MARKDOWN, *IMAGES, *FILES))
# These serve every page under an address of its own and know all addresses, so that one without a page is wrong.
PARTS = {"snippets", "partials", "includes", "fragments", "_includes"}
BY_ADDRESS = ("mintlify", "docusaurus", "vitepress")


class Judged(NamedTuple):
    findings: tuple[Finding, ...]
    doubtful: Mapping[str, Finding]
    """What was not found and may nevertheless be right, by target."""


NOTHING = Judged((), {})


def judge(places: Places, page: str, facts: Facts) -> Judged:
    findings: list[Finding] = []
    doubtful: dict[str, Finding] = {}
    for line, kind, target in facts.references:
        said = INCLUDES.get(kind, _link)(places, page, kind, target)
        if said is not None:
            finding = Finding(said.rule, page, line, said.message)
            if said.is_sure:
                findings.append(finding)
            else:
                doubtful[target] = finding
    return Judged(tuple(findings), doubtful) if findings or doubtful else NOTHING


def _link(places: Places, page: str, kind: str, target: str) -> Said | None:
    if "?" in target:
        path, suffix = split(target)
        anchor = suffix.partition("#")[2]
    else:
        path, _, anchor = target.partition("#")
    file = places.find(page, path) if path else page
    if file is None:
        return None if places.may_exist(page, path) else _broken(places, page, path, target)
    if not anchor or file not in places.pages or _has(places, page, file, anchor):
        return None
    where = "this page" if page == file else f"`{path}`"
    said = f"The link to `{target}` names an anchor, `{anchor}`, that {where} does not have."
    return Said("anchor", said, _makes_all_anchors(places, page, file))


def _has(places: Places, page: str, file: str, anchor: str) -> bool:
    anchors = places.anchors_of(file)
    if anchors.has(anchor) or ("%" in anchor and anchors.has(unquote(anchor))):
        return True
    if any(anchor in labels for labels in places.labels.values()):
        return True  # Sphinx leads from any page to any label, also on pages that it takes in from outside
    site = places.site_of.get(page)
    return site is not None and site.kind in ("sphinx", "mixed") and site.open_ended


def _makes_all_anchors(places: Places, page: str, file: str) -> bool:
    """Not where hooks make more of them, nor for a part that links into the pages it will be part of."""
    site = places.site_of.get(file)
    if site is not None and site.kind == "mkdocs" and site.open_ended:
        return False
    return page != file or not (posixpath.basename(page).startswith("_") or PARTS & set(page.split("/")))


def _broken(places: Places, page: str, path: str, target: str) -> Said:
    kind = extension(path)
    site = places.site_of.get(page)
    is_sure = _is_sure(places, site, path, kind)
    if kind in IMAGES:
        return Said("image", f"The image `{target}` does not exist.", is_sure)
    if page.rpartition("/")[2] in LISTS:
        return Said("navigation", f"The entry `{target}` names a page that does not exist.", is_sure)
    return Said("link", f"The link to `{target}` leads nowhere.", is_sure)


def _is_sure(places: Places, site: Site | None, path: str, kind: str) -> bool:
    """What the generator's own checker would report. Everything else may be made by a build or served beside it."""
    absolute = path.startswith("/")
    if site is None or site.kind not in BY_ADDRESS:
        if site is not None and (site.kind in ("hugo", "mixed") or (site.open_ended and site.kind == "mkdocs")):
            return False
        return not absolute and (kind in MARKDOWN if site is not None and site.kind == "jekyll" else kind in BY_FILE)
    if absolute and kind in BY_FILE and kind not in MARKDOWN:
        return any(f"{asset}/{path.split('/')[1]}".strip("/") in places.folders for asset in site.assets)
    if kind in BY_FILE:
        return not absolute or site.kind != "docusaurus"
    if site.open_ended or (kind and not kind[1:].isdigit() and kind != ".html"):
        return False
    return not absolute or _is_known(places, site, path)


def _is_known(places: Places, site: Site, path: str) -> bool:
    """Whether an address belongs to this site and to no other application behind the same name."""
    names = [name for name in unquote(path).strip("/").split("/") if name]
    if any("/".join(names).startswith(begin) for begin in site.generated):
        return False
    if site.kind == "vitepress" or (site.kind == "mintlify" and names):
        return True
    while names and names[0] in site.prefixes:
        names.pop(0)
    return bool(names) and any(f"{root}/{names[0]}".strip("/") in places.folders for root in site.roots)
