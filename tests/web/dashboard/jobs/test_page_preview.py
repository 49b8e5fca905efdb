"""The rendered page before and after a change. What a hostile page contains neither runs nor loads."""

import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.web.dashboard.jobs.page_preview import MAX_PREVIEW_SECONDS
from copydesk.web.dashboard.jobs.page_renderer import (
    ALLOWED_CLASSES,
    ALLOWED_TAGS,
    MAX_PAGE_CHARS,
    RenderingTooSlow,
    render_page_blocks,
)
from tests.support.people import signed_in_client
from tests.support.repositories import make_repository
from tests.support.scripted_model import ScriptedModel, calls, edit, finish
from tests.support.service import Service, serve

VOID_TAGS = ("br", "hr")


class HarmlessHtml(HTMLParser):
    """Fails on every element, attribute and nesting that the preview must not contain."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED_TAGS, tag
        assert all(name == "class" and value in ALLOWED_CLASSES for name, value in attrs), attrs
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID_TAGS:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


def read_harmless(html: str) -> str:
    """Returns the text of the HTML, after checking that it is harmless and closes all its elements."""
    parser = HarmlessHtml()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser.text


def render(text: str, path: str = "docs/a.md") -> str:
    blocks = render_page_blocks(path, text, time.monotonic() + 60)
    for block in blocks:
        read_harmless(block.html)
    return "\n".join(block.html for block in blocks)


ATTACKS = [
    "<script>alert(1)</script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "![x](https://tracker.example/p.gif)",
    "[x](javascript:alert(1))",
    "[x](  JaVaScRiPt&colon;alert(1) )",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "<javascript:alert(1)>",
    '<a href="javascript:alert(1)" target=_blank>x</a>',
    '<svg onload=alert(1)><script xlink:href="data:,x"/></svg>',
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<iframe src=https://evil.example srcdoc='<script>1</script>'></iframe>",
    "<style>*{background:url(https://evil.example)}</style><p style='position:fixed'>x</p>",
    "<form action=/sign-out method=post><input name=a autofocus onfocus=alert(1)><button>Merge</button></form>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'><base href=https://evil.example>",
    "<link rel=stylesheet href=https://evil.example/x.css><object data=x></object><embed src=x>",
    "</div></details></section></main></body></html>\n\n</div></div>",
    "text </p></div><div class='notice warn' id=changes>Merged</div>",
    "<!-- x --><!--[if IE]><script>1</script><![endif]--><![CDATA[x]]><?php x ?><!DOCTYPE x>",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x&#62; &#x3c;b&#x3e;",
    "<Card title=\"<script>alert(1)</script>\" onClick={() => alert('x')}>\n\n{alert(1)}\n\n</Card>",
    "{<script>alert(1)</script>}",
    'export const x = <img src=x onerror="alert(1)" />',
    "```html class=<script>\n<script>alert(1)</script>\n```",
    "```<script>alert(1)</script>\nx\n```",
    "# <img src=x onerror=alert(1)> {#id onclick=x}",
    "| <script> | `</td><script>` |\n|---|:-:|\n| <iframe> | </table><script>1</script> |",
    "---\ntitle: </pre><script>alert(1)</script>\n---\nx",
    "[x]: javascript:alert(1)\n\n[x]",
    "<a href='x' <b>><<<script>>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<template><script>1</script></template><textarea></textarea><select><option><script>",
    "<plaintext><xmp><script>alert(1)</script>",
    "\x00<script\x00>alert(1)</script>\x0c<img\x0csrc=x>",
    "<details open ontoggle=alert(1)><summary>s</summary>x</details><video src=x autoplay></video>",
]


@pytest.mark.parametrize("path", ["a.md", "a.mdx", "a.rst", "a.adoc", "a.txt"])
@pytest.mark.parametrize("text", ATTACKS)
def test_hostile_markup_is_harmless(text: str, path: str) -> None:
    render(text, path)
    render(f"- > {text}\n\n1. {text}", path)


def test_only_our_own_classes_are_left_of_attributes() -> None:
    html = render(
        '<p title="a" lang="de" id="x" style="top:0" class="h1 notice">one</p>\n\nTwo <b class="h1">words</b>.'
    )
    assert re.findall(r"<\w[^>]*>", html) == ['<p class="h1">', "<p>", "<b>"]


PIECES = st.sampled_from(
    [*ATTACKS, "<", ">", "</", '"', "'", "`", "```\n", "\n\n", "\n", "    ", "> ", "- ", "{", "}", "|"]
)


@pytest.mark.deep
@given(st.lists(PIECES, max_size=12), st.sampled_from(["a.md", "a.mdx"]))
def test_any_mix_of_hostile_markup_is_harmless(pieces: list[str], path: str) -> None:
    render("".join(pieces), path)


def test_page_is_rendered_with_inert_links_and_images() -> None:
    html = render("# Title\n\nA [link](/x) and ![pic](a.png), **bold** `code`.\n\n- one\n\n| a |\n|---|\n| b |\n")
    assert '<p class="h1">Title</p>' in html
    assert '<span class="link">link</span>' in html
    assert '<span class="image">Image: pic</span>' in html
    assert all(part in html for part in ("<strong>bold</strong>", "<code>code</code>", "<li>one</li>", "<td>b</td>"))


def test_components_are_labeled_and_their_text_is_rendered() -> None:
    card = '<Card\n    title="First"\n  >\n    Some **text**.\n  </Card>'
    page = f"import A from 'a'\n\n<CardGroup cols={{2}}>\n  {card}\n</CardGroup>\n"
    html = render(page, "a.mdx")
    assert "<pre><code>import A from 'a'" in html
    assert '<span class="component">CardGroup</span>' in html
    assert '<span class="component">Card: First</span>' in html
    assert "<p>Some <strong>text</strong>.</p>" in html
    assert "`<Card>`".strip("`") in read_harmless(render("Use `<Card>` here.", "a.mdx"))
    assert "<Card>\n" in read_harmless(render("```\n<Card>\n```", "a.mdx"))


HEAVY = {
    "brackets": "[" * MAX_PAGE_CHARS,
    "nested quotations": "> " * 30_000,
    "nested elements": "<div>" * 12_000,
    "elements in blocks": "<div>\n\n" * 8_000,
    "nested lists": "".join(" " * depth + "- a\n" for depth in range(300)),
    "emphasis": "**a *b " * 8_000,
    "table": "|a|b|\n|-|-|\n" + "|c|<b>\n" * 8_000,
    "paragraphs": "a\n\n" * 20_000,
    "headings": "# <b>a\n" * 8_000,
    "components": "<A \"{'" * 10_000,
    "fences": "```\n" * 15_000,
    "module lines": "import {\n" * 6_000,
    "comments": "<!--" * 15_000,
    "backticks": "".join("`" * n + " " for n in range(340)),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.parametrize("path", ["a.md", "a.mdx"])
def test_heavy_pages_are_rendered_in_bounded_time(name: str, path: str) -> None:
    started = time.process_time()
    try:
        blocks = render_page_blocks(path, HEAVY[name][:MAX_PAGE_CHARS], time.monotonic() + 1)
    except RenderingTooSlow:
        blocks = []
    assert time.process_time() - started < 10
    assert sum(len(block.html) for block in blocks) < 20 * MAX_PAGE_CHARS


PAGE = b"---\ntitle: T\n---\n# Hello\n\nThe colour of things.\n\nA [link](/x) stays.\n\n" + b"".join(
    b"Line %d.\n\n" % n for n in range(60)
)
FILES = {"docs/index.md": PAGE, "docs/old.md": PAGE, "docs/gone.rst": b"Gone\n====\n\nBye.\n", "data.json": b"{}\n"}
FIVE_MEGABYTES = b"# Long\n\n" + b"Some words of a long page.\n\n" * 180_000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("preview")
    script = [
        edit("docs/index.md", "colour", "<b>color</b>"),
        calls(("write", {"path": "docs/new.md", "content": "# New\n\n<b>Fresh</b> text.\n"})),
        calls(("write", {"path": "docs/z-huge.md", "content": "# Huge\n\n" + "Long line of text.\n" * 20_000})),
        calls(("move", {"path": "docs/old.md", "to": "docs/moved.md"})),
        calls(("delete", {"path": "docs/gone.rst"})),
        edit("docs/five.md", "# Long", "# Longer"),
        edit("data.json", "{}", '{"a": 1}'),
        *[finish()] * 4,
    ]
    repository = make_repository(folder / "docs.git", FILES | {"docs/five.md": FIVE_MEGABYTES})
    with serve(folder / "data", repository=repository, model=lambda _name: ScriptedModel(script)) as running:
        running.client.wait(running.client.create_job("Change it.")["id"])
        yield running


def page_urls(service: Service) -> list[str]:
    [pull] = service.desk.pulls.list_for_project(service.project.id)
    project = f"/projects/{service.project.id}"
    return [
        f"{project}/jobs/{pull.job_id}",
        f"{project}/pulls/{pull.number}",
        f"/review/{pull.token}/pulls/{pull.number}",
    ]


def find_file(page: str, path: str) -> str:
    """Returns the part of the page about a file."""
    [part] = [part for part in page.split('<details class="file"') if f"{path}</span>" in part[:400]]
    return part


@pytest.mark.deep
@pytest.mark.parametrize("number", [0, 1, 2])
def test_review_shows_pages_before_and_after_beside_the_diff(service: Service, number: int) -> None:
    url = page_urls(service)[number]
    viewer = signed_in_client(service, "viewer")
    plain = viewer.get(url).text
    assert f'href="{url}?view=rendered#changes"' in plain
    assert 'class="rendered"' not in plain
    response = viewer.get(f"{url}?view=rendered")
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]
    page = response.text
    changed = find_file(page, "docs/index.md")
    before, _, after = changed.partition('<p class="side-title">After</p>')
    assert '<p class="h1">Hello</p>' in before
    assert '<div class="changed"><span class="unseen">Changed: </span><p>The colour of things.</p></div>' in before
    assert '<div class="changed"><span class="unseen">Changed: </span><p>The <b>color</b> of things.</p></div>' in after
    assert "<div><p>Line 59.</p></div>" in after, "the whole page is shown"
    assert before.count('class="changed"') == 1
    assert 'class="diff unified"' in after
    assert "The page did not exist." in find_file(page, "docs/new.md")
    assert "<p><b>Fresh</b> text.</p>" in find_file(page, "docs/new.md")
    assert "The page is deleted." in find_file(page, "docs/gone.rst")
    assert "<pre>Gone\n====</pre>" in find_file(page, "docs/gone.rst")
    assert "Only the name changed." in find_file(page, "docs/moved.md")
    assert "too long to render" in find_file(page, "docs/z-huge.md")
    assert 'class="rendered"' not in find_file(page, "data.json")


@pytest.mark.deep
def test_preview_says_so_if_this_server_lacks_the_page(service: Service, tmp_path: Path) -> None:
    mirror = service.desk.settings.mirrors_folder / f"{service.project.id}.git"
    aside = tmp_path / "mirror.git"
    mirror.rename(aside)
    try:
        page = signed_in_client(service, "viewer").get(f"{page_urls(service)[0]}?view=rendered").text
    finally:
        aside.rename(mirror)
    assert "does not have the whole page, or" in find_file(page, "docs/index.md")
    assert "<p><b>Fresh</b> text.</p>" in find_file(page, "docs/new.md")


@pytest.mark.deep
def test_page_of_five_megabytes_is_bounded(service: Service) -> None:
    url = page_urls(service)[0]
    started = time.monotonic()
    response = signed_in_client(service, "viewer").get(f"{url}?view=rendered")
    assert time.monotonic() - started < 10 + MAX_PREVIEW_SECONDS
    assert len(response.content) < 300_000
    assert "or it is too long" in find_file(response.text, "docs/five.md")
