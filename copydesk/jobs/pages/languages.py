"""Finds the folders and file names of translations, so that work on the source language leaves them alone."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from copydesk.jobs.pages.page_types import is_page

LANGUAGE_LIST = """\
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch cn co cr cs cu cv cy da de dv dz ee el en eo
es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jp jv ka kg
ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no
nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg
th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"""
LANGUAGE_CODES = frozenset(LANGUAGE_LIST.split())
"""Two-letter codes of languages, and the codes of countries that folders are named by mistake: cn, jp, kr."""
LANGUAGE_PATTERN = re.compile(r"([a-z]{2})(?:[-_](?:[A-Z]{2}|[a-z]{2}|[A-Z][a-z]{3}|\d{3}))?")
I18N_FOLDER_PATTERN = re.compile(r"(?:^|.*/)i18n/[^/]+(?=/)")
SUFFIX_PATTERN = re.compile(r"(.+)\.([a-z]{2}(?:[-_][A-Za-z]{2,4})?)(\.(?:md|mdx|markdown))$")
MINTLIFY_LANGUAGE_PATTERN = re.compile(r'"language"\s*:\s*"([^"]+)"')
DECLARING_FILES = ("docs.json", "mint.json", "mkdocs.yml", "mkdocs.yaml")
FIXTURE_PATTERN = re.compile(r"(?:^|/)(?:__tests__|__fixtures__|fixtures|testdata)/")
"""Folders of sites that only tests build."""
MIN_TWIN_SHARE = 0.5
"""A folder counts as a translation if more than this share of its pages has a twin in the source language."""


class Translations(NamedTuple):
    """The translations of a repository. `source` names the source language, or is empty where no folder names it."""

    folders: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    """Endings such as `.fr.md` of pages beside their source."""
    source: str = ""

    def contains(self, path: str) -> bool:
        return path.startswith(tuple(f"{folder}/" for folder in self.folders)) or path.endswith(self.suffixes)

    def __bool__(self) -> bool:
        return bool(self.folders or self.suffixes)

    @property
    def names(self) -> list[str]:
        return [*(f"{folder}/" for folder in self.folders), *(f"*{suffix}" for suffix in self.suffixes)]


def find_translations(paths: Iterable[str], read: Callable[[str], str] = lambda path: "") -> Translations:
    """Returns the translations among these files. `read` returns the text of a file, for the site's configuration.

    Recognizes the languages that docs.json and the i18n plugin of MkDocs declare, `i18n/xx/` of Docusaurus,
    `page.xx.md` beside `page.md`, and folders `xx/` whose pages have twins: in the folder above, as with VitePress, or
    in a sibling such as `en/`."""
    paths = list(paths)
    pages = [path for path in paths if is_page(path) and not FIXTURE_PATTERN.search(path)]
    known = set(pages)
    folders = {match[0] for path in pages if (match := I18N_FOLDER_PATTERN.match(path))}
    for path in paths:
        if posixpath.basename(path) in DECLARING_FILES:
            declared = _list_declared_folders(path, read(path))
            folders |= {folder for folder in declared if any(page.startswith(f"{folder}/") for page in pages)}
    source = ""
    for parent, pages_by_language in _group_by_language(pages).items():
        translated, group_source = _find_translated(parent, pages_by_language, known)
        folders |= {f"{parent}{language}" for language in translated}
        source = source or group_source
    return Translations(tuple(sorted(folders)), _find_suffixes(pages, known), source)


def _list_declared_folders(path: str, text: str) -> list[str]:
    """Returns the folders of the languages that a configuration declares, except the source language."""
    folder = posixpath.dirname(path)
    if path.endswith(".json"):
        languages = MINTLIFY_LANGUAGE_PATTERN.findall(text)
        default = re.search(r'"default"\s*:\s*true[^{}]*?"language"\s*:\s*"([^"]+)"', text)
        default = default or re.search(r'"language"\s*:\s*"([^"]+)"[^{}\[\]]*"default"\s*:\s*true', text)
    elif "docs_structure: folder" in text:
        folder = posixpath.join(folder, "docs")
        languages = re.findall(r"^\s*-?\s*locale:\s*[\"']?([\w-]+)", text, re.M)
        default = re.search(r"locale:\s*[\"']?([\w-]+)[\"']?\s*\n(?:(?!\s*- ).*\n)*?\s*default:\s*true", text)
    else:
        return []
    source = default[1] if default else next(iter(languages), "")
    return [posixpath.join(folder, each) for each in dict.fromkeys(languages) if each != source and is_language(each)]


def _group_by_language(pages: Collection[str]) -> dict[str, dict[str, set[str]]]:
    """Returns the pages below folders that are named like a language: by parent folder and language."""
    groups: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in pages:
        names = path.split("/")
        for position, name in enumerate(names[:-1]):
            if is_language(name):
                parent = "".join(f"{each}/" for each in names[:position])
                groups[parent][name].add("/".join(names[position + 1 :]))
                break
    return groups


def _find_translated(
    parent: str, pages_by_language: dict[str, set[str]], known: Collection[str]
) -> tuple[list[str], str]:
    """Returns the languages of a folder that are translations, and the source language if it has a folder too."""
    has_source_above = [
        language
        for language, pages in pages_by_language.items()
        if _twin_share(pages, {page for page in pages if f"{parent}{page}" in known}) > MIN_TWIN_SHARE
    ]
    if has_source_above:
        return has_source_above, ""
    if len(pages_by_language) < 2:
        return [], ""
    source = (
        "en" if "en" in pages_by_language else max(pages_by_language, key=lambda each: len(pages_by_language[each]))
    )
    source_pages = pages_by_language[source]
    translated = [
        language
        for language, pages in pages_by_language.items()
        if language != source and _twin_share(pages, pages & source_pages) > MIN_TWIN_SHARE
    ]
    return translated, source if translated else ""


def _twin_share(pages: Collection[str], twins: Collection[str]) -> float:
    return len(twins) / len(pages)


def _find_suffixes(pages: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    suffixes: dict[str, list[bool]] = defaultdict(list)
    for path in pages:
        match = SUFFIX_PATTERN.match(path)
        if match and is_language(match[2]):
            suffixes[match[2] + match[3]].append(match[1] + match[3] in known)
    return tuple(sorted(f".{name}" for name, twins in suffixes.items() if sum(twins) > MIN_TWIN_SHARE * len(twins)))


def is_language(name: str) -> bool:
    match = LANGUAGE_PATTERN.fullmatch(name)
    return match is not None and match[1] in LANGUAGE_CODES
