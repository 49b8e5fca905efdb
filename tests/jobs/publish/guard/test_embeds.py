"""A change that makes a page load from a new host or run a script is refused, for every way to do so."""

import pytest

from copydesk.jobs.publish.guard.publish_guard import PublishRefused, check_publishable
from tests.jobs.conftest import Files, MakeWorkspace

EVIL = "https://evil.example/x"
SITES: Files = {"docs/page.md": b"# Page\n\nWords.\n"}
MKDOCS: Files = {**SITES, "mkdocs.yml": b"site_name: Docs\n"}
JEKYLL: Files = {**SITES, "_config.yml": b"title: Docs\n"}
DOCUSAURUS: Files = {**SITES, "docusaurus.config.js": b"module.exports = {};\n"}


def explain_refusal(workspace: MakeWorkspace, path: str, text: str, files: Files = SITES, before: str = "") -> str:
    """Returns why a change to one file is refused, or an empty text."""
    known = {**files, **({path: before.encode()} if before else {})}
    try:
        check_publishable(workspace(known).tree, {path: text.encode()}, allowed_patterns=["*"])
    except PublishRefused as refusal:
        return str(refusal)
    return ""


MARKDOWN = {
    "an escaped colon": r"![x](https\://evil.example/x)",
    "an escaped backtick": rf"\`<img src={EVIL}>\`",
    "a fence in a div": f"<div>\n```\n<script src={EVIL}></script>\n```\n</div>",
    "a fence that a list ends": f"- ```\n<script src={EVIL}></script>\n  ```",
    "code over lines": f"a ` b\n<img src={EVIL}> ` c",
    "indented text": f"!!! note\n\n    <script src={EVIL}></script>",
    "an unclosed fence": f"```\n<script src={EVIL}></script>",
    "an entity for a tab": '<img src="ht&#9;tps://evil.example/x">',
    "a named tab": '<img src="ht&Tab;tps://evil.example/x">',
    "a named newline": '<img src="https:&NewLine;//evil.example/x">',
    "a comment that ends early": f"<!--> <img src={EVIL}> -->",
    "a comment that ends with a bang": f"<!-- a --!> <img src={EVIL}> -->",
    "an upper-case tag": f'<IMG SRC="{EVIL}">',
    "an element of SVG": f'<svg><image href="{EVIL}"/></svg>',
    "an animation": f'<svg><animate attributeName="href" to="{EVIL}"/></svg>',
    "a style in SVG": f"<svg><style><img src={EVIL}></style></svg>",
    "a style with escapes": r'<div style="background:\75 rl(\2f\2f evil.example/x)">x</div>',
    "a style with a comment": '<div style="background:u/**/rl(//evil.example/x)">x</div>',
    "a frame of its own": '<iframe srcdoc="&lt;script&gt;x()&lt;/script&gt;"></iframe>',
    "a handler": '<details ontoggle="x()" open>y</details>',
    "a handler after a slash": "<svg/onload=x()>",
    "an attribute list": 'Words.\n{: onclick="x()" }',
    "a shortcode": f'{{{{< figure src="{EVIL}" >}}}}',
    "an include of Liquid": f'{{% include image.html url="{EVIL}" %}}',
    "a snippet": f'--8<-- "{EVIL}"',
    "a directive of MyST": f"```{{image}} {EVIL}\n```",
    "a raw directive of MyST": f"```{{raw}} html\n<script src={EVIL}></script>\n```",
    "reStructuredText in MyST": f"```{{eval-rst}}\n.. image:: {EVIL}\n```",
    "a directive with colons": f":::{{image}} {EVIL}\n:::",
    "a diagram": f"```mermaid\nflowchart TD\n  A@{{ img: \"{EVIL}\" }}\n```",
    "front matter": f"---\nicon: {EVIL}\n---\n\nWords.",
    "a redirect in front matter": f"---\nredirect_to: {EVIL}\n---\n\nWords.",
    "front matter in braces": f'---\n{{icon: "{EVIL}", title: "{{{{ x }}}}"}}\n---\n\nWords.',
    "front matter that is no data": f"---\ntitle: [\nicon: {EVIL}\n---\n\nWords.",
    "a reference with a space": f"![x] [pic]\n\n[pic]: {EVIL}",
    "a reference in a paragraph": f"![x][pic]\nwords\n[pic]: {EVIL}",
    "many brackets": "[" * 30 + f"![x]({EVIL})",
    "a quote in a quote": "> " * 50 + f"![x]({EVIL})",
    "a link that runs": "[x](java&#115;cript:alert(1))",
    "a broken tag": f"<img alt=' src={EVIL}>",
    "a tag over blocks": f'<div title="\n\n"><img src={EVIL}>\n\n">',
    "a template in an address": "<img src=\"{{ 'https:' | append: '//evil.example/x' }}\">",
    "a bound attribute": "<img :src=\"'https:' + '//evil.example'\">",
    "an address with a name in it": "![x](https://img.example.com@evil.example/x)",
    "a wide dot": "![x](https://evil。example/x)",
}  # fmt: skip


@pytest.mark.parametrize("how", MARKDOWN)
@pytest.mark.parametrize("path", ["docs/page.md", "docs/license-notes.md"])
def test_markdown_page_cannot_load_from_a_new_host(workspace: MakeWorkspace, path: str, how: str) -> None:
    text = MARKDOWN[how] if MARKDOWN[how].startswith("---") else f"# Page\n\n{MARKDOWN[how]}"
    assert "makes readers load" in explain_refusal(workspace, path, f"{text}\n")


IN_A_DIALECT = [
    (MKDOCS, f"- a\n\n  ~~~html\n  <script src={EVIL}></script>\n  ~~~"),
    (MKDOCS, f"1. a\n\n   ```html\n   <script src={EVIL}></script>\n   ```"),
    (MKDOCS, f"<div>\n\n```html\n<script src={EVIL}></script>\n```\n\n</div>"),
    (JEKYLL, f"<div>\n\n```html\n<script src={EVIL}></script>\n```\n\n</div>"),
    (JEKYLL, "{{ '<scr' | append: 'ipt>' }}"),
    (DOCUSAURUS, "{constructor.constructor('x')()}"),
    (DOCUSAURUS, "<img src={'https:' + a} />"),
]


@pytest.mark.parametrize(("files", "text"), IN_A_DIALECT, ids=range(len(IN_A_DIALECT)))
def test_generator_specific_embeds_are_refused_for_that_generator(
    workspace: MakeWorkspace, files: Files, text: str
) -> None:
    assert "makes readers load" in explain_refusal(workspace, "docs/page.md", f"# Page\n\n{text}\n", files)
    if "src={" not in text:
        assert explain_refusal(workspace, "docs/page.md", f"# Page\n\n{text}\n") == ""


MDX = {
    "a constructor": "{constructor.constructor('return fetch(\"//evil.example\")')()}",
    "a call": "{load()}",
    "a call through brackets": "{a['b']()}",
    "a tagged template": "{load`x`}",
    "an escaped name": r"{\u0066etch('x')}",
    "an assignment": "{location = 'x'}",
    "a computed address": "<img src={['https:', '//evil.example'].join('')} />",
    "a template": "<img src={`https:${'//evil.example'}`} />",
    "a name": "<img src={address} />",
    "spread attributes": f'<img {{...{{src: "{EVIL}"}}}} />',
    "an expression in an attribute": f'<Card icon={{<img src="{EVIL}" />}} />',
    "an exported component": "export const X = () => load()",
    "an import": f"import X from '{EVIL}'",
    "a handler": "<div onClick={() => load()} />",
    "a style": f"<div style={{{{backgroundImage: 'url({EVIL})'}}}} />",
    "a fence in an attribute": f'<X a="\n```\n" />\n\n![x]({EVIL})\n\n<X a="\n```\n" />',
    "a fence that a list ends": f'- ```\n<img src="{EVIL}" />\n  ```',
    "a function for a method": "{['//evil.example'].map(fetch)}",
    "an optional call": "{load?.('x')}",
    "a call behind an apostrophe": "{a && <b>don't {load()} ' </b>}",
    "a live block": "```jsx live\nload()\n```",
    "a style element": f"<style>{{`@import '{EVIL}'`}}</style>",
}


@pytest.mark.parametrize("how", MDX)
def test_mdx_page_cannot_run_code(workspace: MakeWorkspace, how: str) -> None:
    assert "makes readers load" in explain_refusal(workspace, "docs/page.mdx", f"# Page\n\n{MDX[how]}\n", DOCUSAURUS)


RST = {
    "raw HTML": f".. raw:: html\n\n   <script src={EVIL}></script>",
    "a raw role": f".. role:: raw-html(raw)\n   :format: html\n\n:raw-html:`<img src={EVIL}>`",
    "an image": f".. image:: {EVIL}",
    "a substitution": f"|x|\n\n.. |x| image:: {EVIL}",
    "a directive of Sphinx": f".. only:: html\n\n   .. image:: {EVIL}",
    "an unknown directive": f".. youtube:: {EVIL}",
    "an option": f".. card:: x\n   :img-top: {EVIL}",
    "a refresh": f".. meta::\n   :http-equiv=refresh: 0;url={EVIL}",
    "code that runs": ".. jupyter-execute::\n\n   load()",
    "deep nesting": "".join(" " * n + "a\n\n" for n in range(300)) + f".. image:: {EVIL}",
}


@pytest.mark.parametrize("how", RST)
def test_restructured_text_page_cannot_load_from_a_new_host(workspace: MakeWorkspace, how: str) -> None:
    assert "makes readers load" in explain_refusal(workspace, "docs/page.rst", f"Page\n====\n\n{RST[how]}\n")


def test_parsing_restructured_text_opens_no_file(workspace: MakeWorkspace, tmp_path: object) -> None:
    secret = f"{tmp_path}/secret"
    with open(secret, "w", encoding="utf-8") as file:
        file.write(f"<script src={EVIL}></script>")
    for text in (f".. include:: {secret}", f".. raw:: html\n   :file: {secret}", f".. csv-table::\n   :file: {secret}"):
        assert explain_refusal(workspace, "docs/page.rst", f"Page\n====\n\n{text}\n") == ""


ASCIIDOC = {
    "listings that seem to be underlined": f"----\n}});\n----\n\nimage::{EVIL}[]\n\n----\n}});\n----",
    "an image": f"image::{EVIL}[]",
    "an image in backticks": f"`image:{EVIL}[]`",
    "attributes": ":a: https:\n:b: //evil.example\n\nimage::{a}{b}/x.gif[]",
    "an attribute of another file": "image::{tracker}/x.gif[]",
    "the folder of images": f":imagesdir: {EVIL}\n\nimage::x.gif[]",
    "a passthrough block": f"++++\n<script src={EVIL}></script>\n++++",
    "a passthrough": f"pass:[<img src={EVIL}>]",
    "a title that looks like a listing": f"Abcde\n-----\nimage::{EVIL}[]\n\n-----",
    "conditions around a listing": f"ifdef::x[]\n----\nendif::[]\nimage::{EVIL}[]\nifdef::x[]\n----\nendif::[]",
    "a listing with macros": f'[subs="macros"]\n----\nimage::{EVIL}[]\n----',
    "a listing without end": "----\nwords",
}


@pytest.mark.parametrize("how", ASCIIDOC)
def test_asciidoc_page_cannot_load_from_a_new_host(workspace: MakeWorkspace, how: str) -> None:
    assert "makes readers load" in explain_refusal(workspace, "docs/page.adoc", f"= Page\n\n{ASCIIDOC[how]}\n")


OTHERS = [
    ("docs/x.svg", '<svg xmlns="http://www.w3.org/2000/svg" onload="x()"/>'),
    ("docs/x.html", "<body onload=x()>"),
    ("docs/x.html", f"<link rel=stylesheet href={EVIL}>"),
    ("docs/x.css", r"a{background:\75 rl(\2f\2f evil.example/x)}"),
    ("docs/x.css", f"@\\69mport '{EVIL}';"),
    ("mkdocs.yml", f"extra_javascript:\n  - {EVIL}\n"),
    ("mkdocs.yml", "nav:\n  - '<img src=x onerror=x()>': a.md\n"),
    ("docs.json", f'{{"redirects": [{{"source": "/a", "destination": "{EVIL}"}}]}}'),
    ("docs.json", f'{{"navigation": {{"pages": [{{"icon": "{EVIL}"}}]}}}}'),
]


@pytest.mark.parametrize(("path", "text"), OTHERS, ids=range(len(OTHERS)))
def test_other_file_types_cannot_load_from_a_new_host(workspace: MakeWorkspace, path: str, text: str) -> None:
    assert "makes readers load" in explain_refusal(workspace, path, text)


HARMLESS = [
    ("docs/page.md", f"Put this in your page:\n\n```html\n<script src='{EVIL}'></script>\n```\n"),
    ("docs/page.md", f"1. Put it in:\n\n   ```html\n   <script src='{EVIL}'></script>\n   ```\n"),
    ("docs/page.md", f"<details>\n<summary>Code</summary>\n\n```html\n<img src={EVIL}>\n```\n\n</details>\n"),
    ("docs/page.md", f"Write `<img src={EVIL}>` there.\n"),
    ("docs/page.md", "Use `{name}` and {name} in /users/{id}; see {{ site.name }}.\n"),
    ("docs/page.md", '<img src="{{ site.baseurl }}/img/a.png"> <img src="/b.png" alt="b">\n'),
    ("docs/page.md", f"---\ntitle: A\nurl: {EVIL}\n---\n\n[x]({EVIL})\n"),
    ("docs/page.mdx", "import img from './a.png'\n\n<img src={img} /> {props.name} {' '} {/* words */}\n"),
    ("docs/page.mdx", "<Img src={useBaseUrl('/a.png')} /> <Img src={require('./a.png').default} />\n"),
    ("docs/page.mdx", "<Tabs>\n  <Tab title=\"a\">\n    ```js\n    load({a: b()});\n    ```\n  </Tab>\n</Tabs>\n"),
    ("docs/page.mdx", f'<Card title="x" href="{EVIL}" cols={{2}} items={{["a", "b"]}} />\n'),
    ("docs/page.mdx", "<div style={{color: 'red', padding: 4}}>x</div>\n\nYou can\nexport your data.\n"),
    ("docs/page.rst", f"Page\n====\n\n.. code-block:: html\n\n   <script src='{EVIL}'></script>\n\n`x <{EVIL}>`_\n"),
    ("docs/page.adoc", f"= Page\n\n[source,html]\n----\n<script src='{EVIL}'></script>\n----\n\nlink:{EVIL}[x]\n"),
    ("docs/page.md", f"<!-- ![x]({EVIL}) -->\n"),
    ("mkdocs.yml", f"site_name: Docs\nsite_url: {EVIL}\nnav:\n  - Home: index.md\n  - Forum: {EVIL}\n"),
    ("docs/page.adoc", f"= Page\n\n[source,js]\n----\nfetch('{EVIL}').then(() => {{\n}});\n----\n"),
    ("docs/page.adoc", "= Page\n\ninclude::{snippets}/a.adoc[]\n"),
    ("docs/page.rst", f"Page\n====\n\n.. versionchanged:: 2.0 See {EVIL}\n\n.. seealso:: {EVIL}\n"),
    ("docs/page.mdx", f'# Page\n\n<ParamField default="{EVIL}">Words.</ParamField>\n'),
    ("docs/page.md", f"---\napi: POST {EVIL}\n---\n\nWords.\n"),
    ("mkdocs.yml", f"site_name: Docs\ncopyright: <a href='{EVIL}'>Us</a>\n"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text"), HARMLESS, ids=range(len(HARMLESS)))
def test_code_samples_and_links_are_not_embeds(workspace: MakeWorkspace, path: str, text: str) -> None:
    assert explain_refusal(workspace, path, text) == ""


@pytest.mark.deep
def test_large_page_accepts_plain_text_but_no_markup(workspace: MakeWorkspace) -> None:
    large = "Some words of a large page.\n\n" * 40_000
    assert explain_refusal(workspace, "docs/large.md", large + "More words.\n", before=large) == ""
    assert "makes readers load" in explain_refusal(workspace, "docs/large.md", large + "![x](y.png)\n", before=large)
