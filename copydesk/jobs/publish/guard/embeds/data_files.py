"""What front matter and the settings of a site load: any address under a key that is not known to be a link."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml

from copydesk.jobs.pages import front_matter as frontmatter
from copydesk.jobs.publish.guard.embeds.html import find_in_html
from copydesk.jobs.publish.guard.embeds.urls import Embed, Kind, find_host, find_urls, runs_code, shorten

MAX_CHARS = 300_000
LINK_KEYS = re.compile(
    r"(?:.*[_-])?(?:url|uri|href|link|links|to|homepage|website|canonical|repo|repository|github|source|cite|page|pages"
    r"|nav|navigation|author|authors|license|reference|references|see|site|discord|slack|twitter|linkedin|x|youtube"
    r"|primary|socials|support|from|issues|changelog|baseurl)\Z",
    re.I,
)
NOT_LINKS = re.compile(r"(?:server|api|image|img|script|css|style|logo|icon|font|redirect|analytics|background)", re.I)
TEXTS = re.compile(
    r"(?:title|description|summary|subtitle|abstract|excerpt|sidebar_label|name|text|label|tags?)\Z", re.I
)
ENDPOINT = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|WEBHOOK)\s")
Path = tuple[str, ...]
Pairs = list[tuple[Path, str]]


class Unreadable(Exception):
    """The data cannot be parsed, so that nothing is known of it."""


def parse_data(name: str, text: str) -> Any:
    """Returns the data as dicts, lists and strings; raises Unreadable."""
    if len(text) > MAX_CHARS:
        raise Unreadable
    try:
        if name.endswith(".json"):
            return json.loads(text)
        if name.endswith(".toml"):
            return tomllib.loads(text)
        return _to_plain(yaml.compose(text, Loader=frontmatter.loader_for(text)), {})
    except (ValueError, yaml.YAMLError, RecursionError) as failure:
        raise Unreadable from failure


def _to_plain(node: yaml.Node | None, known: dict[int, Any]) -> Any:
    """Returns what a node says; no tag is obeyed, and an alias is the same object as its anchor."""
    if node is None:
        return None
    if id(node) not in known:
        if isinstance(node, yaml.MappingNode):
            pairs = known[id(node)] = {}
            for key, value in node.value:
                pairs[_to_key(key)] = _to_plain(value, known)
        elif isinstance(node, yaml.SequenceNode):
            items = known[id(node)] = []
            items.extend(_to_plain(item, known) for item in node.value)
        else:
            known[id(node)] = (
                str(node.value) if node.tag.startswith("tag:yaml.org,2002:str") else f"{node.tag} {node.value}"
            )
    return known[id(node)]


def _to_key(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else f"? {node.start_mark.index}"


def list_strings(data: Any) -> Pairs:
    """Returns every string with the keys that lead to it; what several aliases share is listed once."""
    found: Pairs = []
    waiting: list[tuple[Path, Any]] = [((), data)]
    seen: set[int] = set()
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict | list):
            if id(value) in seen:
                continue
            seen.add(id(value))
            inside = value.items() if isinstance(value, dict) else (("", item) for item in value)
            waiting += [((*path[-4:], str(key)), item) for key, item in inside]
            if isinstance(value, dict):
                found += [((*path, "?"), str(key)) for key in value]
        elif isinstance(value, str):
            found.append((path, value))
    return found[::-1]


def find_in_data(data: Any) -> Iterator[Embed]:
    """Yields what the strings refer to, keys included: a menu's titles are keys, and may be written as HTML."""
    for path, text in list_strings(data):
        anchors = set[str]()
        if "<" in text:
            found = list(find_in_html(text))
            anchors = {one.url for one in found if one.kind == "link"}
            yield from (one for one in found if one.kind != "link")
        kind: Kind = "link" if _is_endpoint(path, text) else _find_kind(path)
        if runs_code(text):
            yield Embed("script", shorten(text))
        elif find_host(text):
            yield Embed(kind, text.strip())
        else:
            named: Kind = "link" if any(TEXTS.match(key) for key in path[-2:]) or "?" in path else kind
            yield from (Embed("link" if url in anchors else named, url) for url in find_urls(text))


def _is_endpoint(path: Path, text: str) -> bool:
    """Whether a page names the request that it describes, such as `api: POST https://api.example.com/users`."""
    return path == ("api",) and ENDPOINT.match(text) is not None


def _find_kind(path: Path) -> Kind:
    keys = [key for key in path if key]
    if not keys:
        return "link"
    if any(re.search(r"redirect", key, re.I) for key in keys):
        return "script"
    last = keys[-1]
    if (
        last in ("href", "$schema")
        or "nav" in keys
        or (LINK_KEYS.match(last) and not any(NOT_LINKS.search(key) for key in keys))
    ):
        return "link"
    return "script" if re.search(r"script|js\Z|plugin|analytics|api", " ".join(keys), re.I) else "image"


def find_in_front_matter(head: str) -> Iterator[Embed]:
    """Yields what the fields at the top of a page refer to; fields that cannot be read load all they name."""
    inner = head.strip().strip("-+.").strip("\n") + "\n"
    try:
        data = parse_data("x.toml" if head.startswith("+++") else "x.yml", inner)
    except Unreadable:
        yield from (Embed("image", url) for url in find_urls(head))
        yield from (one for one in find_in_html(head) if one.kind != "link")
        return
    yield from find_in_data(data)
