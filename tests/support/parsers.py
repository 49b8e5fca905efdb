"""All parsers of text from a repository, a prompt, a model, a forge or a visitor, by name: one line each."""

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pygit2

from copydesk.analytics.classification.classifier import normalize_markdown_accept
from copydesk.analytics.ip_addresses import build_trusted_networks, find_client_address
from copydesk.analytics.log_import.formats import FORMATS
from copydesk.analytics.page_paths import normalize_url
from copydesk.jobs.agent.mechanic import (
    add_fields,
    fix_formatting,
    link_plan,
    replace_text,
)
from copydesk.jobs.agent.mechanic.instructions import AddField, FixHeadings, FixLinks, Replace, TrimSpace
from copydesk.jobs.agent.models.errors import redact_secrets as without_keys
from copydesk.jobs.agent.tools.toolbox import TOOLS
from copydesk.jobs.checks import check
from copydesk.jobs.checks.checker import clear_caches
from copydesk.jobs.pages.move_page import move_page
from copydesk.jobs.pages.parsing import front_matter, headings
from copydesk.jobs.pages.parsing import prose as markup
from copydesk.jobs.pages.parsing.page_facts import PageFacts
from copydesk.jobs.pages.parsing.page_parser import find_references, parse_page
from copydesk.jobs.pages.site.anchors import PageAnchors
from copydesk.jobs.pages.site.generators import find_config_parser
from copydesk.jobs.pages.site.nav_files import parse_nav_file
from copydesk.jobs.publish.forges import markers as forge_text
from copydesk.jobs.publish.forges.rest.api_client import redact_message
from copydesk.jobs.publish.forges.rest.gitea import DRAFT_MARK_PATTERN
from copydesk.jobs.publish.forges.webhooks import payloads as hooks
from copydesk.jobs.publish.guard.added_lines import FilesBefore, ProposedFile
from copydesk.jobs.publish.guard.secret_scanner import find_secret, redact_secrets
from copydesk.jobs.publish.messages import format_pull_title, neutralize_markup
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.path_rules import PathRefused, validate_path
from copydesk.jobs.workspace.text_edits import NotEditable, Replacement, apply_replacements
from copydesk.jobs.workspace.workspace import Workspace
from copydesk.web.dashboard.jobs.diff_parser import parse_patch
from tests.support.repositories import commit

MARKDOWN = (
    " ¦\n¦\n\n¦\r\n¦\t¦`¦``¦```¦~~~¦[¦](¦)¦]: ¦![¦<!--¦-->¦{/*¦*/}¦{¦}¦a¦#¦# ¦<¦>¦</¦<a ¦'¦=¦\\¦$¦---\n¦+++\n¦title: ¦"
    ' to=¦ id="¦\nimport ¦ from ¦- ¦> ¦1. ¦:¦::¦:::¦{%¦{{¦--8<--¦@include:¦\n<<< ¦:ref:`¦{doc}`¦```{toctree}\n¦_a ¦_¦é¦'
    "\u0301\u0316"
)
RST = " ¦\n¦\r\n¦\t¦`¦``¦:¦::\n¦.. ¦.. _¦.. toctree::\n¦.. image:: ¦:name: ¦:ref:`¦:doc:`¦<¦>¦`_¦a¦|¦   ¦+¦-¦__¦é"
ADOC = " ¦\n¦`¦+¦++¦-¦----\n¦link:¦xref:¦include::¦<<¦.adoc¦[¦]¦a¦:¦/"
LITERALS = '{¦}¦[¦]¦"¦\'¦\\¦\n¦//¦/*¦*/¦:¦,¦a¦ ¦"pages":¦sidebar¦link:¦`¦require(¦? ¦baseUrl:¦path: \'¦/¦GET '
YAML = "- ¦: ¦\n¦ ¦  ¦a¦*a¦&a ¦[¦]¦{¦}¦'¦\"¦|\n¦# ¦!x ¦<<: ¦---\n¦nav:\n¦docs_dir: ¦hooks:¦? ¦\t¦é¦1:"
WORDS = 'foo ¦foo¦ ¦  ¦\t¦\n¦-¦.¦/¦@¦a¦a@b.¦www.¦http:¦[¦](¦)¦`¦<a ¦ title="¦{¦}¦#¦> ¦_¦ _a¦é¦1.¦!!!¦::: '
PROSE = (
    "@¦#1¦!¦<¦>¦&¦a¦;¦`¦```\n¦~~~¦\n¦\n\n¦ ¦/¦GH-1¦fix ¦fixes: ¦issue ¦https:¦AB-1¦<!--¦-->¦copydesk:¦> ¦    ¦\u200b"
)
SECRETS = (
    'AKIA¦A¦a¦1¦-¦_¦=¦:¦"¦ ¦\n¦sk-¦sk-ant-a¦xapp-1-A¦ghp_¦glpat-¦hf_¦npm_¦xoxb-¦SG.¦-----BEGIN¦PRIVATE KEY¦AccountKey=¦'
    "desk_¦bearer ¦//¦T3BlbkFJ¦sk-proj-¦dop_v1_¦xoxb-1-¦aws¦key¦https://hooks.slack.com/services/T¦/B¦pypi-AgEIcHlwaS5vcmc"
)
DIFF = "@@ -1 +1 @@\n¦@@ -1,9 +1,9 @@\n¦-¦+¦ ¦\n¦a ¦b ¦a¦\\ No newline\n¦diff \n¦-a b\n+a c\n"
LOG = (
    '1.2.3.4 ¦- ¦[10/Oct/2026:13:55:36 +0200] ¦"GET / HTTP/1.1" ¦200 ¦1 ¦"¦\\¦\\x¦\n¦ ¦a¦{¦}¦{"url":"¦":¦,¦'
    "#Fields: ¦\t¦%20¦["
)
TOML = "a¦.¦=¦[¦]¦{¦'¦\"¦\n¦1¦ ¦a.¦src = "
URL = "/¦.¦..¦.md¦index.html/¦%¦%41¦%2F¦%C3¦?¦&¦=¦#¦a¦:¦@¦é¦\u0301\u0316¦https://¦data:¦_rsc=¦llms.txt"
CHANGED = "a\n¦b\n¦\n¦ ¦a ¦b ¦> ¦- ¦* ¦|¦1. ¦`¦-¦=¦\r\n¦“¦\u0301\u0316"


class Parser(NamedTuple):
    run: Callable[[str], object]
    alphabet: str
    """Characters and words that the parser treats specially, separated by a broken bar."""
    size: int = 4000
    """Characters of the smaller input."""

    @property
    def pieces(self) -> list[str]:
        return self.alphabet.split("¦")


@cache
def _empty_tree() -> Tree:
    folder = tempfile.TemporaryDirectory()
    repository = pygit2.init_repository(str(Path(folder.name) / "repository"), bare=True)
    tree = Tree(repository, commit(repository, {"README.md": b"# Read me\n"}))
    tree.folder = folder  # type: ignore[attr-defined]  # removed with it
    return tree


def workspace_of(**files: str) -> Workspace:
    """Returns a workspace with these files: `a_md="…"` is a.md."""
    workspace = Workspace(_empty_tree())
    for name, text in files.items():
        workspace.write(".".join(name.rsplit("_", 1)), encode_text(text))
    return workspace


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def read_facts(kind: str, before: str = "", after: str = "") -> Callable[[str], object]:
    return lambda text: parse_page(kind, encode_text(f"{before}{text}{after}"))


def read_headings(text: str) -> object:
    prose = markup.mask_non_prose("a.md", text)
    return headings.find_headings(text, prose)


def read_anchors(text: str) -> object:
    facts = PageFacts(headings=(text[:900],), explicit_ids=(text,))
    anchors = [PageAnchors(kind, facts) for kind in (None, "docusaurus", "mkdocs", "vitepress")]
    return [(each.has(f"x{text}"), each.find_similar(f"x{text}")) for each in anchors]


def read_site(path: str) -> Callable[[str], object]:
    reader = find_config_parser(path)
    assert reader is not None
    return lambda text: reader(path, text)


def check_page(text: str) -> object:
    clear_caches()
    return check(workspace_of(a_md=text, mkdocs_yml="site_name: x\n"))


def edit_text(text: str) -> object:
    try:
        return apply_replacements(
            text.encode("utf-8", "replace"), [Replacement("a" + text[:200], "b"), Replacement("a", "b\nc", 1)]
        )
    except NotEditable:
        return None


def check_path(text: str) -> object:
    try:
        return validate_path(text)
    except PathRefused:
        return None


def find_secret_in(text: str) -> object:
    return find_secret(ProposedFile("a.md", encode_text(text), FilesBefore((("a.md", encode_text(text[1:])),))))


def call_tool(name: str, argument: str) -> Callable[[str], object]:
    """Runs an agent tool on the text of a page, with a pattern as long as its arguments allow."""
    tool = TOOLS[name]
    page = workspace_of(aaaaaaaa_md="a" * 1000)
    return lambda text: tool.run(page, tool.arguments.model_validate({argument: text[:1000]}))


def read_forwarded(text: str) -> object:
    return find_client_address("1.2.3.4", [text], build_trusted_networks(["1.2.3.4"]), "forwarded")


def read_log(name: str) -> Callable[[str], object]:
    return lambda text: list(FORMATS[name]().parse_lines(text))


PARSERS: dict[str, Parser] = {
    "prose .md": Parser(partial(markup.mask_non_prose, "a.md"), MARKDOWN),
    "prose .mdx": Parser(partial(markup.mask_non_prose, "a.mdx"), MARKDOWN),
    "prose .rst": Parser(partial(markup.mask_non_prose, "a.rst"), RST),
    "prose .adoc": Parser(partial(markup.mask_non_prose, "a.adoc"), ADOC),
    "links .md": Parser(partial(find_references, "a.md"), MARKDOWN),
    "links .mdx": Parser(partial(find_references, "a.mdx"), MARKDOWN),
    "links .rst": Parser(partial(find_references, "a.rst"), RST),
    "links .adoc": Parser(partial(find_references, "a.adoc"), ADOC),
    "facts .md": Parser(read_facts(".md"), MARKDOWN),
    "facts .mdx": Parser(read_facts(".mdx"), MARKDOWN),
    "facts .rst": Parser(read_facts(".rst"), RST),
    "front matter": Parser(lambda text: front_matter.parse_front_matter(f"---\n{text}\n---\n"), YAML, 1000),
    "checked front matter": Parser(read_facts(".md", "---\n", "\n---\n"), YAML, 1000),
    "TOML front matter": Parser(read_facts(".md", "+++\n", "\n+++\n"), TOML, 2000),
    "quoted YAML": Parser(front_matter.quote_yaml, YAML, 1000),
    "headings": Parser(read_headings, MARKDOWN),
    "text of a heading": Parser(lambda text: (headings.strip_markup(text), headings.slugify_github(text)), MARKDOWN),
    "anchors": Parser(read_anchors, MARKDOWN),
    "listing docs.json": Parser(partial(parse_nav_file, "docs.json"), LITERALS),
    "listing sidebars.js": Parser(partial(parse_nav_file, "sidebars.js"), LITERALS),
    "listing VitePress": Parser(partial(parse_nav_file, ".vitepress/config.ts"), LITERALS),
    "listing mkdocs.yml": Parser(partial(parse_nav_file, "mkdocs.yml"), YAML, 1000),
    "listing _toc.yml": Parser(partial(parse_nav_file, "_toc.yml"), YAML, 1000),
    "site docs.json": Parser(read_site("docs.json"), LITERALS),
    "site docusaurus.config.js": Parser(read_site("docusaurus.config.js"), LITERALS),
    "site VitePress": Parser(read_site(".vitepress/config.ts"), LITERALS),
    "site mkdocs.yml": Parser(read_site("mkdocs.yml"), YAML),
    "site conf.py": Parser(read_site("conf.py"), LITERALS),
    "site book.toml": Parser(read_site("book.toml"), TOML),
    "site .gitbook.yaml": Parser(read_site(".gitbook.yaml"), YAML),
    "check": Parser(check_page, MARKDOWN),
    "move": Parser(lambda text: move_page(workspace_of(a_md=text, b_md=text), "a.md", "docs/c.md"), MARKDOWN),
    "replace a word": Parser(
        lambda text: replace_text.plan_replacement(workspace_of(a_md=text), Replace("foo bar", "baz")), WORDS
    ),
    "fix links": Parser(lambda text: link_plan.plan_link_fixes(workspace_of(a_md=text), FixLinks()), MARKDOWN),
    "add a description": Parser(
        lambda text: add_fields.plan_fields(workspace_of(a_md=text), AddField("description")), WORDS
    ),
    "trim space": Parser(lambda text: fix_formatting.plan_trimming(workspace_of(a_md=text), TrimSpace()), WORDS),
    "fix headings": Parser(lambda text: fix_formatting.plan_headings(workspace_of(a_md=text), FixHeadings()), MARKDOWN),
    "edit": Parser(edit_text, CHANGED),
    "path": Parser(check_path, URL),
    "list tool": Parser(call_tool("list", "pattern"), "*¦?¦[¦]¦!¦a¦a*", 250),
    "secret in a change": Parser(find_secret_in, SECRETS),
    "secret in a prompt": Parser(lambda text: redact_secrets(text, ["a-known-secret"]), SECRETS),
    "key in an error": Parser(lambda text: without_keys(text, "sk-abcdefghijkl"), SECRETS),
    "error of a forge": Parser(lambda text: redact_message(text, "Bearer abcdefghijkl"), SECRETS),
    "text of a pull request": Parser(neutralize_markup, PROSE),
    "title of a pull request": Parser(format_pull_title, PROSE),
    "title of a draft": Parser(
        lambda text: forge_text.strip_draft_marks(text, DRAFT_MARK_PATTERN), "wip:¦[wip]¦ ¦\n¦a"
    ),
    "text on a forge": Parser(
        lambda text: forge_text.replace_marked_part(text, forge_text.wrap_in_markers(text, text)), PROSE
    ),
    "mention": Parser(lambda text: hooks.has_mention(text, "@desk"), PROSE + "¦@desk¦` ¦`` "),
    "diff on a page": Parser(parse_patch, DIFF),
    "address of a view": Parser(normalize_url, URL, 2000),
    "Accept header": Parser(normalize_markdown_accept.__wrapped__, "text/¦x-¦markdown¦,¦ ¦;¦a"),
    "Forwarded header": Parser(read_forwarded, 'for=¦"¦,¦;¦ ¦1.2.3.4¦a¦\\'),
    **{f"log {name}": Parser(read_log(name), LOG) for name in FORMATS},
}
