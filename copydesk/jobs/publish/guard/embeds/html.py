"""Finds content that HTML loads or runs, with the tokens of an HTML5 parser."""

import re
from collections.abc import Generator, Iterator, Mapping

from copydesk.jobs.publish.guard.embeds.css import find_in_css
from copydesk.jobs.publish.guard.embeds.urls import (
    TOO_LARGE,
    Embed,
    EmbedKind,
    find_host,
    find_urls,
    holds_data,
    runs_code,
    shorten,
)

LOADING_TAGS: dict[str, EmbedKind] = {
    "script": "script", "base": "script", "meta": "redirect", "form": "redirect",
    "iframe": "frame", "frame": "frame", "object": "frame", "embed": "frame", "applet": "frame", "portal": "frame",
    "fencedframe": "frame", "webview": "frame", "link": "style",
    "image": "image", "use": "image", "feimage": "image", "animate": "script", "set": "script",
    **dict.fromkeys(("pattern", "filter", "mask", "clippath", "lineargradient", "radialgradient"), "image"),
    **dict.fromkeys(("textpath", "tref", "mpath", "cursor", "animatetransform", "animatemotion"), "image"),
}  # fmt: skip
"""Elements that load the URLs of all their attributes, including `href`."""
LINK_ATTRIBUTES = {"href", "to", "link"}
TEXT_ATTRIBUTES = {
    "alt", "title", "cite", "value", "placeholder", "label", "name", "content", "description", "summary", "caption",
    "id", "class", "classname", "key", "lang", "property", "itemtype", "itemid", "vocab", "about", "resource", "prefix",
    "default", "example", "repo", "repository",
}  # fmt: skip
"""Attributes whose values are displayed or compared, and never loaded."""
NOT_HANDLERS = {"on", "once", "one", "only", "online", "ontology", "onboarding"}
HANDLER_PREFIXES = (
    "@",
    "v-on:",
    "v-html",
    "v-bind",
    "x-on:",
    "x-data",
    "x-init",
    "x-html",
    "x-bind",
    "hx-",
    "ng-",
    "data-hx-",
)
SRCSET_ATTRIBUTES = ("srcset", "imagesrcset")
LOADING_ATTRIBUTES = {
    "src",
    "srcset",
    "imagesrcset",
    "poster",
    "background",
    "data",
    "icon",
    "img",
    "image",
    "href",
    "style",
    "srcdoc",
}
PLAIN_TEMPLATE_PATTERN = re.compile(
    r"\{\{-?\s*(?:[\w.$]+|'[\w./ -]*'|\"[\w./ -]*\")"
    r"(?:\s*\|\s*(?:relative_url|absolute_url|relURL|absURL|url|escape|xml_escape|upcase|downcase|capitalize|strip))*"
    r"\s*-?\}\}|\{%-?\s*link\s+[\w./-]+\s*-?%\}"
)
TEMPLATE_PATTERN = re.compile(r"\{|<%|\$\(")
MAX_DEPTH = 3
MAX_COMMENT_COST = 500_000_000
RAW_TEXT_TAGS = ("style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript", "plaintext")
END_TAG = "copydesk-end"
RELATIVE_IMPORT_PATTERN = re.compile(r"(?<=[\"'])\.{1,2}/(?:[\w.-]+/)*+(?=[\w.-]+[\"'])")
"""The folders of a file of the repository that a script imports. They change when a page moves."""
QUOTE_PATTERN = re.compile("[\"'`]")


def find_in_html(text: str, depth: int = 0) -> Iterator[Embed]:
    """Yields the embeds and links of the text. Text that ends inside a tag or comment is read again without quotes."""
    if "<" not in text:
        yield from (Embed("link", url) for url in find_urls(text))
        return
    # The tokenizer searches the rest of the text at each comment.
    if text.count("<!--") * len(text) > MAX_COMMENT_COST:
        yield Embed("script", TOO_LARGE)
        return
    is_complete = yield from _read_tokens(f"{text}<{END_TAG}>", depth)
    if not is_complete:
        unterminated = re.sub(r"<!--|<!\[", " ", text) + ">"
        yield from _read_tokens(QUOTE_PATTERN.sub(" ", unterminated), depth)
        yield from _read_tokens(QUOTE_PATTERN.sub('""', unterminated), depth)


def _read_tokens(text: str, depth: int) -> Generator[Embed, None, bool]:
    """Yields the embeds and links of the tokens. Returns whether the text ends outside tags and comments."""
    from justhtml import stream

    open_tag = ""
    is_complete = False
    for event in stream(text):
        if event[0] == "start":
            tag = event[1][0].lower()
            attributes = event[1][1]
            open_tag = tag
            is_complete = tag == END_TAG
            if tag == "script" and not any(name in attributes for name in ("src", "href", "xlink:href")):
                yield Embed("script", shorten(f"<script{_format_attributes(attributes)}>"))
            yield from find_in_attributes(tag, attributes, depth)
        elif event[0] == "end":
            open_tag = ""
        elif event[0] == "text":
            yield from _find_in_text(event[1], open_tag, depth)
    return is_complete


def _find_in_text(text: str, open_tag: str, depth: int) -> Iterator[Embed]:
    """Yields the embeds and links in an element's text. Raw text, as in `<noscript>`, is also read as markup."""
    if open_tag == "script":
        if text.strip():
            yield Embed("script", shorten(RELATIVE_IMPORT_PATTERN.sub("./", text)))
        yield from (Embed("script", url) for url in find_urls(text))
        return
    if open_tag == "style":
        yield from find_in_css(text)
    if open_tag in RAW_TEXT_TAGS and "<" in text and text.rstrip() != f"<{END_TAG}>":
        if depth < MAX_DEPTH:
            yield from find_in_html(text.removesuffix(f"<{END_TAG}>"), depth + 1)
        else:
            yield Embed("script", shorten(text))
    elif open_tag != "style":
        yield from (Embed("link", url) for url in find_urls(text))


def find_in_attributes(tag: str, attributes: Mapping[str, str | None], depth: int = 0) -> Iterator[Embed]:
    """Yields the embeds and links in the attributes of one element."""
    for name, value in attributes.items():
        name = name.lower()
        if _is_handler(name):
            yield Embed("script", shorten(f"{name}={value}"))
        elif value and not name.startswith("xmlns"):
            yield from _find_in_value(tag, name, value, attributes, depth)


def _is_handler(name: str) -> bool:
    """Returns whether the attribute's value is code for the browser or for a library such as Vue, Alpine or htmx."""
    if name.startswith(HANDLER_PREFIXES) or name in ("dangerouslysetinnerhtml", "innerhtml"):
        return True
    if name.startswith(":"):
        return name[1:] in LOADING_ATTRIBUTES
    return name.startswith("on") and name[2:].isalpha() and name not in NOT_HANDLERS


def _find_in_value(
    tag: str, name: str, value: str, attributes: Mapping[str, str | None], depth: int
) -> Iterator[Embed]:
    if name == "srcdoc":
        yield Embed("frame", shorten(value))
        if depth < MAX_DEPTH:
            yield from find_in_html(value, depth + 1)
        return
    if name == "style" or "url(" in value.lower() or ("\\" in value and name not in TEXT_ATTRIBUTES):
        yield from find_in_css(value)
    if tag == "meta":
        yield from _find_in_meta(value, attributes)
        return
    for address in value.split(",") if name in SRCSET_ATTRIBUTES else [value]:
        address = address.split()[0] if name in SRCSET_ATTRIBUTES and address.split() else address
        yield from _find_in_address(tag, name, address)


def _find_in_address(tag: str, name: str, value: str) -> Iterator[Embed]:
    plain = PLAIN_TEMPLATE_PATTERN.sub("", value)
    kind = _find_kind(tag, name)
    if runs_code(value) and name not in TEXT_ATTRIBUTES:
        yield Embed("script", shorten(value))
    elif TEMPLATE_PATTERN.search(plain) and name in LOADING_ATTRIBUTES and (kind != "link" or runs_code(plain)):
        yield Embed("script", shorten(f"{name}={value}"))
    elif find_host(plain):
        yield Embed(kind, value.strip())
    elif _holds_code(tag, name, kind, value):
        yield Embed("script", shorten(value))
    elif tag == "base" and name == "href":
        yield Embed("script", shorten(f"<base href={value}>"))
    elif name not in ("class", "classname", "id"):
        yield from (Embed("image" if kind != "link" else "link", url) for url in find_urls(value))


def _holds_code(tag: str, name: str, kind: EmbedKind, value: str) -> bool:
    """Returns whether a value without a host is a data: URL of a page or script, or sets an attribute by animation."""
    if holds_data(value):
        return kind in ("script", "redirect", "frame", "style") or tag == "use"
    return tag in ("animate", "set") and name in ("to", "from", "values", "by")


def _find_kind(tag: str, name: str) -> EmbedKind:
    if name in TEXT_ATTRIBUTES or name.startswith("aria-"):
        return "link"
    if tag in LOADING_TAGS:
        return LOADING_TAGS[tag]
    is_link = name in LINK_ATTRIBUTES or (tag == "a" and (name == "xlink:href" or name.startswith("data-")))
    return "link" if is_link else "image"


def _find_in_meta(value: str, attributes: Mapping[str, str | None]) -> Iterator[Embed]:
    refreshes = any(
        name.lower() == "http-equiv" and "refresh" in (text or "").lower() for name, text in attributes.items()
    )
    if refreshes and "=" in value:
        yield Embed("script", shorten(value))
    yield from (Embed("redirect", url) for url in find_urls(value))


def _format_attributes(attributes: Mapping[str, str | None]) -> str:
    return "".join(f" {name}={value}" for name, value in attributes.items())
