"""What a piece of HTML loads or runs, by the tokens of an HTML5 parser."""

import re
from collections.abc import Generator, Iterator, Mapping

from copydesk.jobs.publish.guard.embeds.css import find_in_css
from copydesk.jobs.publish.guard.embeds.urls import (
    TOO_LARGE,
    Embed,
    Kind,
    find_host,
    find_urls,
    holds_data,
    runs_code,
    shorten,
)

TAGS: dict[str, Kind] = {
    "script": "script", "base": "script", "meta": "script", "form": "script",
    "iframe": "frame", "frame": "frame", "object": "frame", "embed": "frame", "applet": "frame", "portal": "frame",
    "fencedframe": "frame", "webview": "frame", "link": "style",
    "image": "image", "use": "image", "feimage": "image", "animate": "script", "set": "script",
    **dict.fromkeys(("pattern", "filter", "mask", "clippath", "lineargradient", "radialgradient"), "image"),
    **dict.fromkeys(("textpath", "tref", "mpath", "cursor", "animatetransform", "animatemotion"), "image"),
}  # fmt: skip
"""Elements of which every address is loaded, `href` too."""
LINKS = {"href", "to", "link"}
WORDS = {
    "alt", "title", "cite", "value", "placeholder", "label", "name", "content", "description", "summary", "caption",
    "id", "class", "classname", "key", "lang", "property", "itemtype", "itemid", "vocab", "about", "resource", "prefix",
    "default", "example", "repo", "repository",
}  # fmt: skip
"""Attributes that are shown or compared, and never loaded."""
NO_HANDLERS = {"on", "once", "one", "only", "online", "ontology", "onboarding"}
HANDLERS = ("@", "v-on:", "v-html", "v-bind", "x-on:", "x-data", "x-init", "x-html", "x-bind", "hx-", "ng-", "data-hx-")
SETS = ("srcset", "imagesrcset")
LOADS = {
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
PLAIN_TEMPLATE = re.compile(
    r"\{\{-?\s*(?:[\w.$]+|'[\w./ -]*'|\"[\w./ -]*\")"
    r"(?:\s*\|\s*(?:relative_url|absolute_url|relURL|absURL|url|escape|xml_escape|upcase|downcase|capitalize|strip))*"
    r"\s*-?\}\}|\{%-?\s*link\s+[\w./-]+\s*-?%\}"
)
TEMPLATE = re.compile(r"\{|<%|\$\(")
MAX_DEPTH = 3
MAX_COST = 500_000_000
RAW = ("style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript", "plaintext")
END = "copydesk-end"
QUOTE = re.compile("[\"'`]")


def find_in_html(text: str, depth: int = 0) -> Iterator[Embed]:
    """Yields what the text refers to; text that ends within a tag or a comment is read again without quotes."""
    if "<" not in text:
        yield from (Embed("link", url) for url in find_urls(text))
        return
    if text.count("<!--") * len(text) > MAX_COST:  # the tokenizer looks through the rest of the text at each comment
        yield Embed("script", TOO_LARGE)
        return
    is_whole = yield from _read(f"{text}<{END}>", depth)
    if not is_whole:
        bare = re.sub(r"<!--|<!\[", " ", text) + ">"
        yield from _read(QUOTE.sub(" ", bare), depth)
        yield from _read(QUOTE.sub('""', bare), depth)


def _read(text: str, depth: int) -> Generator[Embed, None, bool]:
    """Yields what the tokens refer to, and returns whether the text ends outside tags and comments."""
    from justhtml import stream

    inside = ""
    is_whole = False
    for event in stream(text):
        if event[0] == "start":
            tag, attributes = event[1][0].lower(), event[1][1]
            inside, is_whole = tag, tag == END
            if tag == "script" and not any(name in attributes for name in ("src", "href", "xlink:href")):
                yield Embed("script", shorten(f"<script{_show(attributes)}>"))
            yield from find_in_attributes(tag, attributes, depth)
        elif event[0] == "end":
            inside = ""
        elif event[0] == "text":
            yield from _find_in_text(event[1], inside, depth)
    return is_whole


def _find_in_text(text: str, inside: str, depth: int) -> Iterator[Embed]:
    """Reads the text of an element; an element whose text is no markup is also read as if it were markup."""
    if inside == "script":
        if text.strip():
            yield Embed("script", shorten(text))
        yield from (Embed("script", url) for url in find_urls(text))
        return
    if inside == "style":
        yield from find_in_css(text)
    if inside in RAW and "<" in text and text.rstrip() != f"<{END}>":
        if depth < MAX_DEPTH:
            yield from find_in_html(text.removesuffix(f"<{END}>"), depth + 1)
        else:
            yield Embed("script", shorten(text))
    elif inside != "style":
        yield from (Embed("link", url) for url in find_urls(text))


def find_in_attributes(tag: str, attributes: Mapping[str, str | None], depth: int = 0) -> Iterator[Embed]:
    """Yields what the attributes of one element refer to."""
    for name, value in attributes.items():
        name = name.lower()
        if _is_handler(name):
            yield Embed("script", shorten(f"{name}={value}"))
        elif value and not name.startswith("xmlns"):
            yield from _find_in_value(tag, name, value, attributes, depth)


def _is_handler(name: str) -> bool:
    """Whether the value of the attribute is run, by the browser or by a library that gives attributes a meaning."""
    if name.startswith(HANDLERS) or name in ("dangerouslysetinnerhtml", "innerhtml"):
        return True
    if name.startswith(":"):
        return name[1:] in LOADS
    return name.startswith("on") and name[2:].isalpha() and name not in NO_HANDLERS


def _find_in_value(
    tag: str, name: str, value: str, attributes: Mapping[str, str | None], depth: int
) -> Iterator[Embed]:
    if name == "srcdoc":
        yield Embed("frame", shorten(value))
        if depth < MAX_DEPTH:
            yield from find_in_html(value, depth + 1)
        return
    if name == "style" or "url(" in value.lower() or ("\\" in value and name not in WORDS):
        yield from find_in_css(value)
    if tag == "meta":
        yield from _find_in_meta(value, attributes)
        return
    for address in value.split(",") if name in SETS else [value]:
        address = address.split()[0] if name in SETS and address.split() else address
        yield from _find_in_address(tag, name, address)


def _find_in_address(tag: str, name: str, value: str) -> Iterator[Embed]:
    plain = PLAIN_TEMPLATE.sub("", value)
    kind = _find_kind(tag, name)
    if runs_code(value) and name not in WORDS:
        yield Embed("script", shorten(value))
    elif TEMPLATE.search(plain) and name in LOADS and (kind != "link" or runs_code(plain)):
        yield Embed("script", shorten(f"{name}={value}"))
    elif find_host(plain):
        yield Embed(kind, value.strip())
    elif _is_run(tag, name, kind, value):
        yield Embed("script", shorten(value))
    elif tag == "base" and name == "href":
        yield Embed("script", shorten(f"<base href={value}>"))
    elif name not in ("class", "classname", "id"):
        yield from (Embed("image" if kind != "link" else "link", url) for url in find_urls(value))


def _is_run(tag: str, name: str, kind: Kind, value: str) -> bool:
    """Whether an address that leads nowhere else holds a page or a script, or is put into an attribute later."""
    if holds_data(value):
        return kind in ("script", "frame", "style") or tag == "use"
    return tag in ("animate", "set") and name in ("to", "from", "values", "by")


def _find_kind(tag: str, name: str) -> Kind:
    if name in WORDS or name.startswith("aria-"):
        return "link"
    if tag in TAGS:
        return TAGS[tag]
    is_link = name in LINKS or (tag == "a" and (name == "xlink:href" or name.startswith("data-")))
    return "link" if is_link else "image"


def _find_in_meta(value: str, attributes: Mapping[str, str | None]) -> Iterator[Embed]:
    refreshes = any(
        name.lower() == "http-equiv" and "refresh" in (text or "").lower() for name, text in attributes.items()
    )
    if refreshes and "=" in value:
        yield Embed("script", shorten(value))
    yield from (Embed("script", url) for url in find_urls(value))


def _show(attributes: Mapping[str, str | None]) -> str:
    return "".join(f" {name}={value}" for name, value in attributes.items())
