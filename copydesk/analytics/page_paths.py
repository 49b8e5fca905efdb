"""Normalizes URLs, so that every spelling of a page's URL gives one path, and drops URLs that are not pages."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from copydesk.analytics.page_view import Dropped, DropReason
from copydesk.core.text.normal_forms import normalize

MAX_URL_CHARS, MAX_PATH_BYTES = 8192, 2048
MAX_CACHED_CHARS = 512
"""Longer URLs are rare and are not cached, so that made-up ones cannot fill the memory."""
HTTP_URL_PATTERN = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
REFERRER_PATTERN = re.compile(r"(?:https?|android-app)://([^/?#]*)", re.IGNORECASE)
OTHER_SCHEME_PATTERN = re.compile(r"[a-z][a-z0-9+.\-]{0,30}://|(?:about|blob|data|javascript|mailto):", re.IGNORECASE)
PERCENT_ESCAPES_PATTERN = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
BARE_PERCENT_PATTERN = re.compile(r"%(?![0-9A-Fa-f]{2})")
CONTROL_CHARS_PATTERN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
INVALID_HOST_CHARS_PATTERN = re.compile(r"[\s/?#\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
RESERVED_IN_PATH, RESERVED_IN_QUERY = "%/?#\\", "%&#+="
"""Characters that stay percent-encoded: decoding them would change the meaning of the URL, or decoding twice would
give another result than decoding once."""

INDEX_FILE_NAMES = frozenset(
    {"index.html", "index.htm", "index.xhtml", "index.php", "index.md", "index.mdx", "index.markdown"}
)
MARKDOWN_SUFFIXES = (".md", ".mdx", ".markdown")
LLMS_FILE_NAMES = frozenset({"llms.txt", "llms-full.txt"})
PAGE_EXTENSIONS = frozenset(
    {
        *("html", "htm", "xhtml", "xht", "shtml", "shtm", "mhtml", "php", "php5", "php7", "phtml", "asp", "aspx"),
        *("jsp", "jspx", "jsf", "xhtm", "cfm", "cfml", "cgi", "pl", "do", "action", "faces", "adp"),
        *("md", "mdx", "markdown", "mkd", "adoc", "asciidoc", "rst", "mdown"),
    }
)
"""File extensions of pages. A path with any other extension is an asset or data."""
NAME_ENDINGS = frozenset({"com", "net", "org", "io", "ai", "dev", "app", "co", "cloud"})
"""Endings of names that pages are about, such as /integrations/monday.com. They are not file extensions."""
NUMERIC_EXTENSIONS = frozenset({"7z", "3gp", "3g2", "3mf", "3ds"})
FILE_EXTENSION_PATTERN = re.compile(r"[a-z][a-z0-9_~]{0,15}|[A-Z][A-Z0-9_~]{0,15}", re.ASCII)
"""Extensions begin with a letter and have one case: /v1.2 and /api/System.String have none."""
VERSION_PATTERN = re.compile(
    r"(?:.*[-_ ])?v?\d+(?:\.\d+)*(?:\.x|[.-]?(?:alpha|beta|rc|pre|preview|next|dev|lts|final|post)[.-]?\d*)",
    re.IGNORECASE | re.ASCII,
)
"""Matches versions that end with letters, such as 10.x and 2.0.rc1."""
MAX_INDEX_NAME_CHARS = max(map(len, INDEX_FILE_NAMES))
INTERNAL_FOLDERS = (".well-known", "_next", "_nuxt", "_vercel", "_astro", "cdn-cgi")
"""First path segments under which frameworks and CDNs serve their files, with or without an extension."""

NOT_A_PAGE = Dropped(DropReason.NOT_A_PAGE)


class PageFormat(StrEnum):
    HTML = "html"
    MARKDOWN = "markdown"
    LLMS = "llms"


@dataclass(frozen=True, slots=True)
class PageLocation:
    host: str
    path: str
    format: PageFormat


UNKNOWN_LOCATION = PageLocation("", "", PageFormat.HTML)
"""The value until the path is normalized."""


def normalize_url(url: str, base_path: str = "", kept_params: frozenset[str] = frozenset()) -> PageLocation | Dropped:
    """Returns the page that a URL or a bare path refers to.

    Idempotent: normalizing a normalized path changes nothing.
    """
    if len(url) > MAX_URL_CHARS:
        return Dropped(DropReason.PATH_TOO_LONG)
    bare_url = url
    query = ""
    if "?" in url or "#" in url:
        bare_url, _, query = url.partition("#")[0].partition("?")
        if "_rsc=" in query:  # Next.js fetches the data of a page with this parameter
            return NOT_A_PAGE
    location = (
        _locate_page(bare_url, base_path)
        if len(bare_url) <= MAX_CACHED_CHARS
        else _locate_page.__wrapped__(bare_url, base_path)
    )
    if not kept_params or not query or isinstance(location, Dropped):
        return location
    kept_query = _filter_query(query, kept_params)
    if kept_query is None:
        return Dropped(DropReason.PATH_NOT_TEXT)
    if len((location.path + kept_query).encode()) > MAX_PATH_BYTES:
        return Dropped(DropReason.PATH_TOO_LONG)
    return PageLocation(location.host, location.path + kept_query, location.format)


@lru_cache(maxsize=1 << 16)
def _locate_page(url: str, base_path: str) -> PageLocation | Dropped:
    """Returns the page of a URL without its query. Queries vary without limit and would defeat the cache."""
    if not url:
        return Dropped(DropReason.NO_PATH)
    host = ""
    path = url
    if match := HTTP_URL_PATTERN.match(url):
        host = normalize_host(match[1])
        path = url[match.end() :]
    elif OTHER_SCHEME_PATTERN.match(url):
        return Dropped(DropReason.NOT_HTTP)
    decoded_path = _decode_percent(path, RESERVED_IN_PATH)
    if decoded_path is None:
        return Dropped(DropReason.PATH_NOT_TEXT)
    segments = _resolve_dots(decoded_path.split("/"))
    # A folder may have the name of a file, such as /integrations/node.js/. Its slash tells it from the file.
    is_named_like_file = not _is_page(segments)
    if is_named_like_file and not (decoded_path.endswith("/") and segments[0] not in INTERNAL_FOLDERS):
        return NOT_A_PAGE
    relative_segments = _relative_to_base(_strip_index_and_suffix(segments), base_path)
    if relative_segments is None:
        return Dropped(DropReason.OUTSIDE_BASE)
    normalized_path = "/" + "/".join(relative_segments)
    if is_named_like_file and relative_segments:
        normalized_path += "/"
    if len(normalized_path.encode()) > MAX_PATH_BYTES:
        return Dropped(DropReason.PATH_TOO_LONG)
    return PageLocation(host, normalized_path, _detect_format(segments))


def host_from_url(url: str) -> str:
    """Returns the host of a referring URL, or the name of an Android app, or "" if it has none.

    The rest of the URL may contain personal data.
    """
    return _host_from_url(url) if len(url) <= MAX_CACHED_CHARS else _host_from_url.__wrapped__(url)


@lru_cache(maxsize=1 << 12)
def _host_from_url(url: str) -> str:
    match = REFERRER_PATTERN.match(url)
    return normalize_host(match[1]) if match and len(match[1]) <= MAX_CACHED_CHARS else ""


@lru_cache(maxsize=1 << 12)
def normalize_host(authority: str) -> str:
    """Returns the host in lower case, without user and port, or "" if it is invalid."""
    host = authority.rpartition("@")[2].lower()
    if not host.endswith("]"):
        head, colon, port = host.rpartition(":")
        host = head if colon and (port.isdecimal() or not port) else host
    return "" if len(host) > 253 or INVALID_HOST_CHARS_PATTERN.search(host) else host.rstrip(".")


def _decode_percent(text: str, protected: str) -> str | None:
    """Decodes percent-encoding, except of protected characters. Returns None if the result is not valid text."""
    text = BARE_PERCENT_PATTERN.sub("%25", text)
    if "%" in text:
        try:
            text = PERCENT_ESCAPES_PATTERN.sub(lambda run: _decode_escapes(run[0], protected), text)
        except UnicodeDecodeError:
            return None
    if CONTROL_CHARS_PATTERN.search(text):
        return None
    return normalize("NFC", text)


def _decode_escapes(escapes: str, protected: str) -> str:
    decoded = unquote_to_bytes(escapes).decode("utf-8")
    return "".join(f"%{ord(c):02X}" if c in protected else c for c in decoded)


def _resolve_dots(segments: Iterable[str]) -> list[str]:
    resolved: list[str] = []
    for segment in segments:
        if segment == "..":
            del resolved[-1:]
        elif segment not in ("", "."):
            resolved.append(segment)
    return resolved


def _is_page(segments: list[str]) -> bool:
    if not segments:
        return True
    if segments[0] in INTERNAL_FOLDERS:
        return False
    return segments[-1].lower() in LLMS_FILE_NAMES or not _is_file_name(segments[-1])


def _is_file_name(segment: str) -> bool:
    """Returns whether a path segment is the name of a file that is not a page, judging by its extension."""
    stem, dot, extension = segment.rpartition(".")
    if not dot or not extension:
        return False
    if not FILE_EXTENSION_PATTERN.fullmatch(extension):
        return extension.lower() in NUMERIC_EXTENSIONS
    extension = extension.lower()
    if extension in PAGE_EXTENSIONS or (stem and extension in NAME_ENDINGS):
        return False
    return not VERSION_PATTERN.fullmatch(segment)


def _detect_format(segments: list[str]) -> PageFormat:
    last_segment = segments[-1].lower() if segments else ""
    if last_segment in LLMS_FILE_NAMES:
        return PageFormat.LLMS
    return PageFormat.MARKDOWN if last_segment.endswith(MARKDOWN_SUFFIXES) else PageFormat.HTML


def _strip_index_and_suffix(segments: list[str]) -> list[str]:
    """Removes index files and Markdown suffixes from the end, repeatedly, as long as the result is still a page."""
    while segments:
        # One character more than the longest index file name is enough: a longer segment cannot equal one.
        ending = segments[-1][-MAX_INDEX_NAME_CHARS - 1 :].lower()
        if ending in INDEX_FILE_NAMES:
            shorter = segments[:-1]
        elif markdown_suffix := next((suffix for suffix in MARKDOWN_SUFFIXES if ending.endswith(suffix)), ""):
            shorter = [*segments[:-1], segments[-1][: -len(markdown_suffix)]]
        else:
            break
        if not _is_page(shorter) or (shorter and shorter[-1] in ("", ".", "..")):
            break
        segments = shorter
    return segments


def _relative_to_base(segments: list[str], base_path: str) -> list[str] | None:
    base_segments = _resolve_dots((_decode_percent(base_path, RESERVED_IN_PATH) or "").split("/"))
    return segments[len(base_segments) :] if segments[: len(base_segments)] == base_segments else None


def _filter_query(query: str, kept_params: frozenset[str]) -> str | None:
    pairs = list(_parse_query(query))
    if any(name is None or value is None for name, value in pairs if name is None or name in kept_params):
        return None
    kept_pairs = sorted(
        (f"{name}={value}" for name, value in pairs if name in kept_params), key=lambda pair: pair.split("=")[0]
    )
    return "?" + "&".join(kept_pairs) if kept_pairs else ""


def _parse_query(query: str) -> Iterator[tuple[str | None, str | None]]:
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        yield (
            _decode_percent(name.replace("+", " "), RESERVED_IN_QUERY),
            _decode_percent(value.replace("+", " "), RESERVED_IN_QUERY),
        )
