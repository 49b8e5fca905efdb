"""Finds embeds in any file, with the parser for its type."""

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache

from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing import front_matter
from copydesk.jobs.publish.guard.embeds.asciidoc import find_in_asciidoc
from copydesk.jobs.publish.guard.embeds.css import find_in_css
from copydesk.jobs.publish.guard.embeds.data_files import UnreadableData, find_in_data, find_in_front_matter, parse_data
from copydesk.jobs.publish.guard.embeds.html import find_in_html
from copydesk.jobs.publish.guard.embeds.markdown import find_in_markdown
from copydesk.jobs.publish.guard.embeds.rst import find_in_rst
from copydesk.jobs.publish.guard.embeds.site_settings import is_site_settings
from copydesk.jobs.publish.guard.embeds.urls import TOO_DEEP, TOO_LARGE, Embed, find_urls

MAX_CHARS = 1_000_000
ASCIIDOC_EXTENSIONS = (".adoc", ".asciidoc", ".asc", ".ad")
HTML_EXTENSIONS = (
    ".html",
    ".htm",
    ".xhtml",
    ".xht",
    ".shtml",
    ".svg",
    ".xml",
    ".xsl",
    ".xslt",
    ".vue",
    ".svelte",
    ".astro",
)
TEMPLATE_EXTENSIONS = (
    ".liquid",
    ".njk",
    ".ejs",
    ".hbs",
    ".mustache",
    ".jinja",
    ".jinja2",
    ".j2",
    ".tmpl",
    ".tpl",
    ".erb",
    ".php",
)
STYLE_EXTENSIONS = (".css", ".scss", ".sass", ".less", ".styl")
NOTEBOOK_EXTENSIONS = (".qmd", ".rmd")
SCRIPT_EXTENSIONS = (".js", ".mjs", ".cjs", ".css", ".wasm")
REDIRECTS_FILE = "_redirects"
RST_DIRECTIVE_PATTERN = re.compile(r"^[ \t]*\.\.[ \t]+\S", re.M)


@lru_cache(64)
def find_embeds(path: str, body: str) -> tuple[Embed, ...]:
    """Returns the embeds and links of a file. A file that cannot be parsed counts as a script."""
    if len(body) > MAX_CHARS:
        return (Embed("script", TOO_LARGE),)
    try:
        return tuple(_find_by_extension(path, extension(path), body))
    except RecursionError:
        return (Embed("script", TOO_DEEP),)


def _find_by_extension(path: str, kind: str, body: str) -> Iterator[Embed]:
    if kind in (*MARKDOWN_EXTENSIONS, *NOTEBOOK_EXTENSIONS):
        yield from _find_in_page(body, is_mdx=kind == ".mdx")
    elif kind == ".rst" or (kind == ".txt" and RST_DIRECTIVE_PATTERN.search(body)):
        yield from find_in_rst(body)
    elif kind in ASCIIDOC_EXTENSIONS:
        yield from find_in_asciidoc(body)
    elif kind in (*HTML_EXTENSIONS, *TEMPLATE_EXTENSIONS):
        yield from find_in_html(body)
    elif kind in STYLE_EXTENSIONS:
        yield from find_in_css(body)
    elif is_site_settings(path):
        yield from _find_in_settings(path, body)
    else:
        redirects = posixpath.basename(path).lower() == REDIRECTS_FILE
        yield from _find_in_other(body, is_text=kind == ".txt", loads_urls=redirects)


def _find_in_page(body: str, is_mdx: bool) -> Iterator[Embed]:
    stop = front_matter.find_body_start(body)
    head = body[:stop]
    page = body[stop:]
    if head:
        yield from find_in_front_matter(head)
        line_offset = head.count("\n")
        for one in find_in_markdown(page, is_mdx=is_mdx):
            yield Embed(one.kind, one.url, one.line + line_offset if one.line else 0, one.dialect)
        # Generators without support for front matter render it as text.
        yield from (one for one in find_in_markdown(head.strip("-+\n"), depth=1) if one.kind != "link")
    else:
        yield from find_in_markdown(body, is_mdx=is_mdx)


def _find_in_settings(path: str, body: str) -> Iterator[Embed]:
    try:
        yield from find_in_data(parse_data(path.lower(), body))
    except UnreadableData:
        yield from (Embed("script", url) for url in find_urls(body))


def _find_in_other(body: str, is_text: bool, loads_urls: bool) -> Iterator[Embed]:
    """Finds URLs in a file of another type. URLs that end with a script's extension count as scripts.

    `loads_urls` says that readers get to every URL without a click."""
    if "<script" in body and not is_text:
        yield from (one for one in find_in_html(body) if one.kind == "script")
    for url in find_urls(body):
        if url.startswith("\\"):
            continue  # an escape sequence in a string
        is_script = loads_urls or url.split("?")[0].split("#")[0].lower().endswith(SCRIPT_EXTENSIONS)
        yield Embed("script" if is_script and not is_text else "link", url)
