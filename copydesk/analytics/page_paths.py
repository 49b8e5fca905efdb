"""One path for one page: however its address is written, and whether it is a page at all."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from copydesk.analytics.page_view import Dropped, Reason
from copydesk.core.text.normal_forms import normalize

LONGEST_URL, LONGEST_PATH = 8192, 2048
LONGEST_REMEMBERED = 512
"""Longer paths are rare, and whoever makes them up must not fill the memory."""
WEB = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]{0,30}://|(?:about|blob|data|javascript|mailto):", re.IGNORECASE)
RUN_OF_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
NOT_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
NOT_IN_HOST = re.compile(r"[\s/?#\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
IN_PATH, IN_QUERY = "%/?#\\", "%&#+="
"""What stays encoded, because decoding it would change what the address means, or would not be stable."""

INDEX = frozenset({"index.html", "index.htm", "index.xhtml", "index.php", "index.md", "index.mdx", "index.markdown"})
TWIN = (".md", ".mdx", ".markdown")
FOR_MODELS = frozenset({"llms.txt", "llms-full.txt"})
NOT_PAGES = re.compile(
    r"(?:7z|apk|atom|avi|avif|bin|bmp|br|bz2|cjs|css|csv|cur|deb|dmg|docx?|eot|epub|exe|flac|gif|gz|ico|ics|ipa|jar"
    r"|jpe?g|js|jsonl?|jxl|less|log|m4a|m4v|map|mjs|mkv|mov|mp3|mp4|mpeg|msi|ndjson|odt|ogg|ogv|opus|otf|pdf|pkg|png"
    r"|pptx?|pyc?|rar|rdf|rpm|rss|rtf|scss|sh|svg|swf|tar|tgz|tiff?|toml|ts|tsv|ttf|txt|wasm|wav|webm|webmanifest|webp"
    r"|whl|woff2?|xlsx?|xml|xsl|xz|ya?ml|zip|zst)",
    re.IGNORECASE,
)
"""Matches paths by their extensions."""
LONGEST_INDEX = max(map(len, INDEX))
MACHINERY = (".well-known", "_next", "_nuxt", "_vercel", "_astro", "cdn-cgi")
"""First parts of paths under which frameworks and networks keep their own files, with or without an extension."""

NOT_A_PAGE = Dropped(Reason.NOT_A_PAGE)


class Form(StrEnum):
    HTML = "html"
    MARKDOWN = "markdown"
    LLMS = "llms"


@dataclass(frozen=True, slots=True)
class Place:
    host: str
    path: str
    form: Form


NOWHERE = Place("", "", Form.HTML)
"""Until it is known."""


def clean(url: str, base: str = "", keep: frozenset[str] = frozenset()) -> Place | Dropped:
    """The page that an address or a bare path leads to. Cleaning a cleaned path changes nothing."""
    if len(url) > LONGEST_URL:
        return Dropped(Reason.PATH_TOO_LONG)
    bare, query = url, ""
    if "?" in url or "#" in url:
        bare, _, query = url.partition("#")[0].partition("?")
        if "_rsc=" in query:  # Next.js fetches the data of a page for itself
            return NOT_A_PAGE
    place = _place(bare, base) if len(bare) <= LONGEST_REMEMBERED else _place.__wrapped__(bare, base)
    if not keep or not query or isinstance(place, Dropped):
        return place
    kept = _kept(query, keep)
    if kept is None:
        return Dropped(Reason.PATH_NOT_TEXT)
    if len((place.path + kept).encode()) > LONGEST_PATH:
        return Dropped(Reason.PATH_TOO_LONG)
    return Place(place.host, place.path + kept, place.form)


@lru_cache(maxsize=1 << 16)
def _place(url: str, base: str) -> Place | Dropped:
    """Remembered without the query, of which there is no end."""
    if not url:
        return Dropped(Reason.NO_PATH)
    host, path = "", url
    if web := WEB.match(url):
        host, path = host_name(web[1]), url[web.end() :]
    elif OTHER_SCHEME.match(url):
        return Dropped(Reason.NOT_HTTP)
    text = _decoded(path, IN_PATH)
    if text is None:
        return Dropped(Reason.PATH_NOT_TEXT)
    names = _resolved(text.split("/"))
    if not _is_page(names):
        return NOT_A_PAGE
    within = _within(_folded(names), base)
    if within is None:
        return Dropped(Reason.OUTSIDE_BASE)
    cleaned = "/" + "/".join(within)
    if len(cleaned.encode()) > LONGEST_PATH:
        return Dropped(Reason.PATH_TOO_LONG)
    return Place(host, cleaned, _form(names))


def host_of(url: str) -> str:
    """The host of a referring address, or nothing: the rest of it may say too much about a person."""
    return _host_of(url) if len(url) <= LONGEST_REMEMBERED else _host_of.__wrapped__(url)


@lru_cache(maxsize=1 << 12)
def _host_of(url: str) -> str:
    web = WEB.match(url)
    return host_name(web[1]) if web and len(web[1]) <= LONGEST_REMEMBERED else ""


@lru_cache(maxsize=1 << 12)
def host_name(authority: str) -> str:
    """Lower case, without user and port; nothing for what is no host."""
    name = authority.rpartition("@")[2].lower()
    if not name.endswith("]"):
        head, colon, port = name.rpartition(":")
        name = head if colon and (port.isdecimal() or not port) else name
    return "" if len(name) > 253 or NOT_IN_HOST.search(name) else name.rstrip(".")


def _decoded(text: str, protected: str) -> str | None:
    """Percent-encoding undone but for protected characters; None where the result would not be text."""
    text = BARE_PERCENT.sub("%25", text)
    if "%" in text:
        try:
            text = RUN_OF_ESCAPES.sub(lambda run: _unescaped(run[0], protected), text)
        except UnicodeDecodeError:
            return None
    if NOT_TEXT.search(text):
        return None
    return normalize("NFC", text)


def _unescaped(run: str, protected: str) -> str:
    plain = unquote_to_bytes(run).decode("utf-8")
    return "".join(f"%{ord(c):02X}" if c in protected else c for c in plain)


def _resolved(names: Iterable[str]) -> list[str]:
    resolved: list[str] = []
    for name in names:
        if name == "..":
            del resolved[-1:]
        elif name not in ("", "."):
            resolved.append(name)
    return resolved


def _is_page(names: list[str]) -> bool:
    if not names:
        return True
    if names[0] in MACHINERY:
        return False
    _, dot, extension = names[-1].rpartition(".")
    return names[-1].lower() in FOR_MODELS or not (dot and NOT_PAGES.fullmatch(extension))


def _form(names: list[str]) -> Form:
    last = names[-1].lower() if names else ""
    if last in FOR_MODELS:
        return Form.LLMS
    return Form.MARKDOWN if last.endswith(TWIN) else Form.HTML


def _folded(names: list[str]) -> list[str]:
    """Without index.html and the suffix of a Markdown twin, as often as they are there and a page remains."""
    while names:
        last = names[-1][-LONGEST_INDEX - 1 :].lower()  # its end, which is all of it where it can be an index
        if last in INDEX:
            shorter = names[:-1]
        elif twin := next((suffix for suffix in TWIN if last.endswith(suffix)), ""):
            shorter = [*names[:-1], names[-1][: -len(twin)]]
        else:
            break
        if not _is_page(shorter) or (shorter and shorter[-1] in ("", ".", "..")):
            break
        names = shorter
    return names


def _within(names: list[str], base: str) -> list[str] | None:
    folder = _resolved((_decoded(base, IN_PATH) or "").split("/"))
    return names[len(folder) :] if names[: len(folder)] == folder else None


def _kept(query: str, keep: frozenset[str]) -> str | None:
    pairs = list(_pairs(query))
    if any(name is None or value is None for name, value in pairs if name is None or name in keep):
        return None
    chosen = sorted((f"{name}={value}" for name, value in pairs if name in keep), key=lambda pair: pair.split("=")[0])
    return "?" + "&".join(chosen) if chosen else ""


def _pairs(query: str) -> Iterator[tuple[str | None, str | None]]:
    for part in query.split("&"):
        name, _, value = part.partition("=")
        yield _decoded(name.replace("+", " "), IN_QUERY), _decoded(value.replace("+", " "), IN_QUERY)
