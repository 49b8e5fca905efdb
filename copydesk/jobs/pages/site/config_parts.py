"""Reads the other files that a site's configuration consists of, as data: references, sidebars, versions, menus."""

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from copydesk.jobs.pages.parsing.js_tokens import mask_comments
from copydesk.jobs.pages.site.generators import ConfigPart, DocsSite, find_config_parser
from copydesk.jobs.pages.site.paths import is_within, join_path

ReadText = Callable[[str], str | None]
"""Returns the text of a file of the repository, or None if there is no such file."""
MAX_PARTS = 200
MAX_NESTING_DEPTH = 100
MAX_CONFIG_CHARS = 8_000_000
"""Limits the characters of all files that one configuration refers to."""
MAX_DOCS_INSTANCES = 50
MAX_OBJECT_CHARS = 5_000
"""Limits the documentation plugins of a site, and the characters around `sidebarPath` that are searched."""
SIDEBAR_PATH_PATTERN = re.compile(r"\bsidebarPath\s*:\s*(?:require\.resolve\(\s*)?[\"'`](?:\./)?([^\"'`$]+)[\"'`]")
DOCS_PATH_PATTERN = re.compile(r"(?<![\w.])path\s*:\s*[\"'`](?:\./)?([^\"'`$]+?)/?[\"'`]")
INSTANCE_ID_PATTERN = re.compile(r"(?<![\w.])id\s*:\s*[\"'`]([\w-]+)[\"'`]")
LAST_VERSION_PATTERN = re.compile(r"\blastVersion\s*:\s*[\"'`]([^\"'`$]+)[\"'`]")
VERSION_FOLDER = "versioned_docs/version-"
VITEPRESS_IMPORT_PATTERN = re.compile(r"\bfrom\s+[\"'](\.[^\"'\n]+)[\"']")
# VitePress also reads a configuration in each folder of pages, such as that of a language.
ADDITIONAL_CONFIG_PATTERN = re.compile(r"(?:^|/)config\.m?[jt]s$")
SCRIPT_ENDINGS = ("", ".ts", ".mts", ".js", ".mjs", ".json", "/index.ts", "/index.js")


def complete_site(path: str, text: str, files: Iterable[str], read: ReadText) -> DocsSite | None:
    """Parses a site's configuration together with the files that it consists of."""
    parser = find_config_parser(path)
    if parser is None:
        return None
    name = posixpath.basename(path)
    if name in ("docs.json", "mint.json") and '"$ref"' in text:
        return _complete_mintlify(path, text, read)
    site = parser(path, text)
    if site is None:
        return None
    if site.kind == "docusaurus":
        return _complete_docusaurus(site, text, read)
    return _complete_vitepress(site, text, files, read) if site.kind == "vitepress" else site


def may_have_parts(path: str, text: str) -> bool:
    """Returns whether a configuration file may consist of several files, so that its text alone does not define it."""
    name = posixpath.basename(path)
    return ".vitepress/" in path or name.startswith("docusaurus.config.") or '"$ref"' in text


@dataclass
class _Expansion:
    """Replaces `{"$ref": "./file.json"}` with the content of the file, as Mintlify does."""

    read: ReadText
    parts: list[ConfigPart] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    chars_left: int = MAX_CONFIG_CHARS

    def expand(self, value: Any, path: str, keys: tuple[str, ...], depth: int = 0) -> Any:
        if depth > MAX_NESTING_DEPTH:
            return value
        if isinstance(value, list):
            return [self.expand(each, path, keys, depth + 1) for each in value]
        if not isinstance(value, dict):
            return value
        expanded = {
            name: self.expand(each, path, (*keys, name), depth + 1) for name, each in value.items() if name != "$ref"
        }
        target = value.get("$ref")
        if not isinstance(target, str):
            return expanded
        content = self._read_part(target, path, keys, depth)
        # Keys next to a reference replace those of the file.
        return {**content, **expanded} if isinstance(content, dict) else content if content is not None else expanded

    def _read_part(self, target: str, path: str, keys: tuple[str, ...], depth: int) -> Any:
        file = join_path(posixpath.dirname(path), target)
        text = None
        if file is not None and len(self.parts) < MAX_PARTS:
            self.parts.append(ConfigPart(file, "mintlify", keys))
            text = self.read(file)
        self.chars_left -= len(text or "")
        if self.chars_left < 0:
            text = None
        try:
            data = json.loads(text) if text is not None else None
        except (ValueError, RecursionError):
            data = None
        if data is None or file is None:
            self.missing.append(target)
            return None
        return self.expand(data, file, keys, depth + 1)


def expand_references(path: str, text: str, read: ReadText) -> tuple[Any, Sequence[str]]:
    """Returns the data of a docs.json or mint.json with the files that `$ref` names, and the paths of those files.

    Raises ValueError or RecursionError if the text is not JSON.
    """
    expansion = _Expansion(read)
    return expansion.expand(json.loads(text), path, ()), [part.path for part in expansion.parts]


def _complete_mintlify(path: str, text: str, read: ReadText) -> DocsSite | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    expansion = _Expansion(read)
    try:
        expanded = json.dumps(expansion.expand(data, path, ()))
    except RecursionError:
        return None
    parser = find_config_parser(path)
    site = parser(path, expanded) if parser else None
    if site is None:
        return None
    missing = ", ".join(f"`{target}`" for target in expansion.missing[:3])
    reason = f"{posixpath.basename(path)} refers to {missing}, which cannot be read" if missing else ""
    return replace(site, parts=tuple(dict.fromkeys(expansion.parts)), open_reason=reason)


def _complete_docusaurus(site: DocsSite, text: str, read: ReadText) -> DocsSite:
    """Adds the sidebars with the folders whose pages they list, and the versions that are built."""
    text = mask_comments(text)
    parts = []
    versions: list[str] = []
    for sidebar, root, instance in _list_docs_instances(text):
        prefix = f"{instance}_" if instance else ""
        parts.append(ConfigPart(_join(site.folder, f"{prefix}versions.json"), "versions"))
        versions += (f"{prefix}versioned_docs/version-{name}" for name in _read_versions(read, parts[-1].path))
        if sidebar:
            parts.append(ConfigPart(_join(site.folder, sidebar), "sidebars", root=_join(site.folder, root)))
    return replace(
        site,
        parts=tuple(dict.fromkeys(parts[:MAX_PARTS])),
        versions=tuple(versions),
        last_version=_find_last_version(text, versions),
    )


def _find_last_version(text: str, versions: list[str]) -> str:
    """Returns the version whose addresses do not name it: the configured one, or else the newest; "" if unknown."""
    if "lastVersion" in text:
        configured = LAST_VERSION_PATTERN.search(text)
        return configured[1] if configured and f"{VERSION_FOLDER}{configured[1]}" in versions else ""
    names = [folder.removeprefix(VERSION_FOLDER) for folder in versions if folder.startswith(VERSION_FOLDER)]
    return names[0] if names and "includeCurrentVersion" not in text else ""


def _list_docs_instances(text: str) -> Iterator[tuple[str, str, str]]:
    """Yields the sidebar file, the folder of pages and the ID of each documentation plugin."""
    has_main = False
    for match in islice(SIDEBAR_PATH_PATTERN.finditer(text), MAX_DOCS_INSTANCES):
        block = _find_object(text, match.start())
        path = DOCS_PATH_PATTERN.search(block)
        instance = INSTANCE_ID_PATTERN.search(block)
        instance_id = instance[1] if instance and instance[1] != "default" else ""
        has_main = has_main or not instance_id
        yield match[1], path[1] if path else "docs", instance_id
    if not has_main:
        yield "", "docs", ""


def _find_object(text: str, position: int) -> str:
    """Returns the object literal around a position, without the objects in it."""
    pieces = []
    for step, limit in (
        (-1, max(-1, position - MAX_OBJECT_CHARS)),
        (1, min(len(text), position + MAX_OBJECT_CHARS)),
    ):
        depth = 0
        piece = []
        index = position if step > 0 else position - 1
        while index != limit:
            character = text[index]
            if character in "{}":
                depth += step if character == "{" else -step
                if depth < 0:
                    break
            elif not depth:
                piece.append(character)
            index += step
        pieces.append("".join(piece[::step]))
    return "".join(pieces)


def _read_versions(read: ReadText, path: str) -> list[str]:
    try:
        data = json.loads(read(path) or "[]")
    except (ValueError, RecursionError):
        data = []
    return [name for name in data if isinstance(name, str)] if isinstance(data, list) else []


def _complete_vitepress(site: DocsSite, text: str, files: Iterable[str], read: ReadText) -> DocsSite:
    """Adds the other files of the configuration: in `.vitepress/config/`, imported ones, and those of folders."""
    folder = _join(site.folder, ".vitepress")
    known = files if isinstance(files, dict) else set(files)
    paths = [
        path for path in known if path.startswith(f"{folder}/config/") and posixpath.splitext(path)[1] in SCRIPT_ENDINGS
    ]
    for target in VITEPRESS_IMPORT_PATTERN.findall(text):
        place = join_path(posixpath.dirname(site.config_path), target)
        paths += [f"{place}{ending}" for ending in SCRIPT_ENDINGS if f"{place}{ending}" in known][:1] if place else []
    additional = (path for path in known if is_within(path, site.folder) and ADDITIONAL_CONFIG_PATTERN.search(path))
    paths += [path for path in additional if "defineAdditionalConfig" in (read(path) or "")]
    paths = [path for path in dict.fromkeys(paths) if path != site.config_path][:MAX_PARTS]
    parser = find_config_parser(site.config_path)
    texts = [text, *(each for path in paths if (each := read(path)) is not None)]
    combined = parser(site.config_path, "\n".join(texts)) if parser else None
    return replace(combined or site, parts=tuple(ConfigPart(path, "vitepress") for path in paths))


def _join(folder: str, name: str) -> str:
    return join_path(folder, name) or name
