"""Finds content that front matter and site settings load: URLs under keys that are not known to be links."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml

from copydesk.jobs.pages.parsing.yaml_reader import BoundedLoader
from copydesk.jobs.publish.guard.embeds.html import find_in_html
from copydesk.jobs.publish.guard.embeds.urls import Embed, EmbedKind, find_host, find_urls, runs_code, shorten

MAX_CHARS = 300_000
LINK_KEY_PATTERN = re.compile(
    r"(?:.*[_-])?(?:url|uri|href|link|links|to|homepage|website|canonical|repo|repository|github|source|cite|page|pages"
    r"|nav|navigation|author|authors|license|reference|references|see|site|discord|slack|twitter|linkedin|x|youtube"
    r"|primary|socials|support|from|issues|changelog|baseurl)\Z",
    re.I,
)
NOT_LINK_KEY_PATTERN = re.compile(
    r"(?:server|api|image|img|script|css|style|logo|icon|font|redirect|analytics|background)", re.I
)
TEXT_KEY_PATTERN = re.compile(
    r"(?:title|description|summary|subtitle|abstract|excerpt|sidebar_label|name|text|label|tags?)\Z", re.I
)
ENDPOINT_PATTERN = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|WEBHOOK)\s")
KeyPath = tuple[str, ...]
StringsByPath = list[tuple[KeyPath, str]]


class UnreadableData(Exception):
    """The data cannot be parsed."""


def parse_data(name: str, text: str) -> Any:
    """Parses JSON, TOML or YAML by the file's name. Raises UnreadableData.

    Values of YAML are strings, with their tags if they are not strings.
    """
    if len(text) > MAX_CHARS:
        raise UnreadableData
    try:
        if name.endswith(".json"):
            return json.loads(text)
        if name.endswith(".toml"):
            return tomllib.loads(text)
        return _plain_from_node(yaml.compose(text, Loader=BoundedLoader), {})
    except (ValueError, yaml.YAMLError, RecursionError) as failure:
        raise UnreadableData from failure


def _plain_from_node(node: yaml.Node | None, converted: dict[int, Any]) -> Any:
    """Converts a YAML node to dicts, lists and strings. Applies no tags; an alias is the same object as its anchor."""
    if node is None:
        return None
    if id(node) not in converted:
        if isinstance(node, yaml.MappingNode):
            pairs = converted[id(node)] = {}
            for key, value in node.value:
                pairs[_key_from_node(key)] = _plain_from_node(value, converted)
        elif isinstance(node, yaml.SequenceNode):
            items = converted[id(node)] = []
            items.extend(_plain_from_node(item, converted) for item in node.value)
        else:
            converted[id(node)] = (
                str(node.value) if node.tag.startswith("tag:yaml.org,2002:str") else f"{node.tag} {node.value}"
            )
    return converted[id(node)]


def _key_from_node(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else f"? {node.start_mark.index}"


def list_strings(data: Any) -> StringsByPath:
    """Returns every string with the path of its keys. Lists objects that several aliases share only once."""
    strings: StringsByPath = []
    pending: list[tuple[KeyPath, Any]] = [((), data)]
    seen: set[int] = set()
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict | list):
            if id(value) in seen:
                continue
            seen.add(id(value))
            children = value.items() if isinstance(value, dict) else (("", item) for item in value)
            pending += [((*path[-4:], str(key)), item) for key, item in children]
            if isinstance(value, dict):
                strings += [((*path, "?"), str(key)) for key in value]
        elif isinstance(value, str):
            strings.append((path, value))
    return strings[::-1]


def find_in_data(data: Any) -> Iterator[Embed]:
    """Yields the embeds and links of all strings, including keys: titles of menus are keys and may contain HTML."""
    for path, text in list_strings(data):
        link_urls = set[str]()
        if "<" in text:
            embeds = list(find_in_html(text))
            link_urls = {one.url for one in embeds if one.kind == "link"}
            yield from (one for one in embeds if one.kind != "link")
        kind: EmbedKind = "link" if _is_endpoint(path, text) else _find_kind(path)
        if runs_code(text):
            yield Embed("script", shorten(text))
        elif find_host(text):
            yield Embed(kind, text.strip())
        else:
            url_kind: EmbedKind = (
                "link" if any(TEXT_KEY_PATTERN.match(key) for key in path[-2:]) or "?" in path else kind
            )
            yield from (Embed("link" if url in link_urls else url_kind, url) for url in find_urls(text))


def _is_endpoint(path: KeyPath, text: str) -> bool:
    """Returns whether the text is the endpoint that a page documents, as in `api: POST https://api.example.com/users`."""
    return path == ("api",) and ENDPOINT_PATTERN.match(text) is not None


def _find_kind(path: KeyPath) -> EmbedKind:
    keys = [key for key in path if key]
    if not keys:
        return "link"
    if any(re.search(r"redirect", key, re.I) for key in keys):
        return "redirect"
    last = keys[-1]
    if (
        last in ("href", "$schema")
        or "nav" in keys
        or (LINK_KEY_PATTERN.match(last) and not any(NOT_LINK_KEY_PATTERN.search(key) for key in keys))
    ):
        return "link"
    names = " ".join(keys)
    if re.search(r"script|js\Z|plugin|analytics", names, re.I):
        return "script"
    return "data" if re.search("api", names, re.I) else "image"


def find_in_front_matter(head: str) -> Iterator[Embed]:
    """Yields the embeds and links of front matter. If it cannot be parsed, all its URLs count as loaded."""
    inner = head.strip().strip("-+.").strip("\n") + "\n"
    try:
        data = parse_data("x.toml" if head.startswith("+++") else "x.yml", inner)
    except UnreadableData:
        yield from (Embed("image", url) for url in find_urls(head))
        yield from (one for one in find_in_html(head) if one.kind != "link")
        return
    yield from find_in_data(data)
