"""Tells the redirects that stay on the site, which are ordinary documentation work, from those that may leave it."""

import posixpath
import re
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension

MAX_DECODINGS = 3
MAX_ADDRESS_CHARS = 2000
NAME_CHARS = r"[\w.~!+,;=@:*% -]"
SITE_PATH_PATTERN = re.compile(
    rf"/(?!.*//)(?!(?:[^?#]*/)?\.{{1,2}}(?:[/?#]|$))(?:[\w~-]{NAME_CHARS}*(?:/{NAME_CHARS}+)*/?)?"
    r"(?:\?[\w.~!+,;=@%&-]*)?(?:#[\w.~!+,;=@:%-]*)?"
)
"""Matches a path whose first name begins with a fixed character: what follows cannot become a host."""
REDIRECT_KEYS = {"source", "destination", "permanent"}
REDIRECT_LINE_PATTERN = re.compile(r"(\S+)[ \t]+(\S+)(?:[ \t]+(?:30[12378]|200|404)!?)?")


def is_site_path(address: object) -> bool:
    """Returns whether an address leads to this site in every browser, however often it is decoded."""
    if not isinstance(address, str) or len(address) > MAX_ADDRESS_CHARS:
        return False
    for _ in range(MAX_DECODINGS):
        plain = unicodedata.normalize("NFKC", unquote(address))
        if not (SITE_PATH_PATTERN.fullmatch(address) and SITE_PATH_PATTERN.fullmatch(plain)):
            return False
        if plain == address:
            return True
        address = plain
    return False


def remove_site_redirects(path: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a site without the redirects that stay on it."""
    name = posixpath.basename(path).lower()
    if name in ("docs.json", "mint.json"):
        return _remove_from_list(settings)
    return _remove_from_plugins(settings) if name.startswith("mkdocs.y") else settings


def list_leaving_lines(text: str) -> list[str]:
    """Returns the lines of a `_redirects` file that are no redirects from the site to itself."""
    return [line for line in map(str.strip, text.splitlines()) if line and line[0] != "#" and not _stays_on_site(line)]


def _stays_on_site(line: str) -> bool:
    match = REDIRECT_LINE_PATTERN.fullmatch(line)
    return match is not None and is_site_path(match[1]) and is_site_path(match[2])


def _remove_from_list(settings: dict[str, Any]) -> dict[str, Any]:
    redirects = settings.get("redirects")
    if not isinstance(redirects, list):
        return settings
    leaving = [each for each in redirects if not _is_site_redirect(each)]
    others = {key: value for key, value in settings.items() if key != "redirects"}
    return {**others, "redirects": leaving} if leaving else others


def _is_site_redirect(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and {"source", "destination"} <= entry.keys() <= REDIRECT_KEYS
        and isinstance(entry.get("permanent", True), bool)
        and is_site_path(entry["source"])
        and is_site_path(entry["destination"])
    )


def _remove_from_plugins(settings: dict[str, Any]) -> dict[str, Any]:
    plugins = settings.get("plugins")
    if isinstance(plugins, list):
        return {**settings, "plugins": list(_remove_from_entries(plugins))}
    if isinstance(plugins, dict) and "redirects" in plugins:
        return {**settings, "plugins": {**plugins, "redirects": _remove_from_options(plugins["redirects"])}}
    return settings


def _remove_from_entries(plugins: list[Any]) -> Iterator[Any]:
    """Yields the plugins; the one for redirects by its name alone if it has no other options."""
    for plugin in plugins:
        if isinstance(plugin, dict) and plugin.keys() == {"redirects"}:
            options = _remove_from_options(plugin["redirects"])
            yield {"redirects": options} if options else "redirects"
        else:
            yield plugin


def _remove_from_options(options: Any) -> Any:
    maps = options.get("redirect_maps") if isinstance(options, dict) else None
    if not isinstance(maps, dict):
        return options
    leaving = {old: new for old, new in maps.items() if not (_is_page_path(old) and _is_page_path(new))}
    others = {key: value for key, value in options.items() if key != "redirect_maps"}
    return {**others, "redirect_maps": leaving} if leaving else others


def _is_page_path(path: object) -> bool:
    """Returns whether this is the path of a page in the folder of pages, perhaps with an anchor."""
    if not isinstance(path, str) or ":" in path or "*" in path or not is_site_path(f"/{path}"):
        return False
    return extension(path.partition("#")[0]) in MARKDOWN_EXTENSIONS
