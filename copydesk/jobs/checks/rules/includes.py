"""Files that become part of a page: each generator's way to include, import and list them."""

import posixpath
import re
from collections.abc import Callable, Iterator

from copydesk.jobs.checks.findings import Said
from copydesk.jobs.checks.site.link_resolver import MODULES, Places, folders_above, joined
from copydesk.jobs.pages.link_targets import split

Check = Callable[[Places, str, str, str], Said | None]
"""Of the places, a page, the kind of a reference and its target."""
LINES = re.compile(r"(?::[\w.-]*){1,2}$")
MADE_BY_SPHINX = ("genindex", "modindex", "py-modindex", "search", "self")
DOCUMENTS = ("", ".rst", ".md", ".ipynb", ".txt", ".markdown", ".myst")


def _first(places: Places, path: str, bases: Iterator[str] | list[str]) -> bool:
    """Whether it is in one of these folders, or may be in one that cannot be looked into."""
    for base in bases:
        file = joined(base, path.lstrip("/"))
        if file is None or file in places.files or file in places.folders or places.is_hidden(file):
            return True
    return False


def _missing(path: str, is_sure: bool = True) -> Said:
    return Said("include", f"The included file `{path}` does not exist.", is_sure)


def _snippet(places: Places, page: str, kind: str, target: str) -> Said | None:
    site = places.site_of.get(page)
    if site is None or site.kind != "mkdocs":
        return None
    path = target
    bases = [*site.snippets, *folders_above(page)]
    if _first(places, path, bases) or _first(places, LINES.sub("", path), bases):
        return None
    return _missing(path, not site.open_ended)


def _liquid(places: Places, page: str, kind: str, target: str) -> Said | None:
    """Jekyll's includes may come with a theme; those that name a place beside the page cannot."""
    path = target
    bases = [
        base
        for above in folders_above(page)
        for base in (above, *(joined(above, n) or n for n in ("_includes", "includes")))
    ]
    way = kind.removeprefix("liquid ")
    beside = way != "include" or path.startswith((".", "/"))
    site = places.site_of.get(page)
    known = site is not None and site.kind in ("jekyll", "mkdocs", "gitbook")
    return None if _first(places, path, bases) else _missing(path, beside and known)


def _vitepress(places: Places, page: str, kind: str, target: str) -> Said | None:
    site = places.site_of.get(page)
    if site is None or site.kind != "vitepress":
        return None
    path = target
    bases = [site.roots[0], site.folder] if path.startswith("@/") else [posixpath.dirname(page), site.roots[0]]
    return None if _first(places, path.removeprefix("@/"), bases) else _missing(path)


def _mdbook(places: Places, page: str, kind: str, target: str) -> Said | None:
    site = places.site_of.get(page)
    if site is None or site.kind != "mdbook" or _first(places, target, [posixpath.dirname(page)]):
        return None
    return _missing(target)


def _tag(places: Places, page: str, kind: str, target: str) -> Said | None:
    site = places.site_of.get(page)
    if site is None or site.kind != "mintlify":
        return None
    bases = [joined(site.folder, name) or name for name in ("snippets", "_snippets", "")]
    return None if _first(places, target, bases) else _missing(target)


def _import(places: Places, page: str, kind: str, target: str) -> Said | None:
    """Of files of the repository; packages and aliases are the build's business."""
    path = split(target.rpartition("!")[2])[0]
    site = places.site_of.get(page)
    if path.startswith("."):
        base: str = posixpath.dirname(page)
    elif path.startswith("@site/") and site is not None and site.kind == "docusaurus":
        base, path = site.folder, path.removeprefix("@site/")
    elif path.startswith("/") and site is not None and site.kind == "mintlify":
        base = site.folder
    else:
        return None
    if any(_first(places, path + added, [base]) for added in MODULES):
        return None
    return Said("include", f"The imported file `{target}` does not exist.", is_sure=True)


def _file(places: Places, page: str, kind: str, target: str) -> Said | None:
    """Sphinx's directives: a leading slash stands for the folder of its configuration."""
    path, site = target, places.site_of.get(page)
    from_top = [site.folder] if site else folders_above(page)
    bases = from_top if path.startswith("/") else [posixpath.dirname(page)]
    if _first(places, path, bases):
        return None
    is_sure = site is None or site.kind == "sphinx"
    if kind in ("image", "figure"):
        return Said("image", f"The image `{path}` does not exist.", is_sure)
    return _missing(path, is_sure)


def _document(places: Places, page: str, kind: str, target: str) -> Said | None:
    path, site = target.strip(), places.site_of.get(page)
    if path in MADE_BY_SPHINX or "*" in path or "://" in path:
        return None
    base = (site.folder if site else "") if path.startswith("/") else posixpath.dirname(page)
    if any(_first(places, path + added, [base]) for added in DOCUMENTS):
        return None
    known = site is not None and site.kind == "sphinx"
    if kind == "toctree":
        said = f"The table of contents names `{path}`, which does not exist."
        return Said("navigation", said, known and site is not None and not site.generated)
    return Said("link", f"The link to `{path}` leads nowhere.", known and site is not None and not site.open_ended)


def _label(places: Places, page: str, kind: str, target: str) -> Said | None:
    label, site = " ".join(target.lower().split()), places.site_of.get(page)
    if label in MADE_BY_SPHINX or any(label in known for known in places.labels.values()):
        return None
    sure = site is not None and site.kind == "sphinx" and not site.open_ended
    return Said("anchor", f"The label `{target}` is not defined.", sure)


INCLUDES: dict[str, Check] = {
    "snippet": _snippet,
    "vitepress": _vitepress,
    "mdbook": _mdbook,
    "tag": _tag,
    "import": _import,
    "doc": _document,
    "toctree": _document,
    "ref": _label,
    **dict.fromkeys(("include", "literalinclude", "image", "figure", "download"), _file),
    **{f"liquid {way}": _liquid for way in ("include", "include_relative", "include-markdown", "content-ref", "file")},
}
