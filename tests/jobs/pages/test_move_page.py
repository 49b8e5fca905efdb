"""Moving a page updates every reference to it, and nothing else."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.jobs.pages.move_page import move_page
from copydesk.jobs.workspace.path_rules import PathRefused
from copydesk.jobs.workspace.workspace import Workspace

Make = Callable[[dict[str, bytes]], Workspace]


@pytest.mark.parametrize(
    ("page", "before", "after"),
    [
        ("docs/a.md", "[x](setup.md)", "[x](guides/install.md)"),
        ("docs/a.md", "[x](./setup.md#top)", "[x](./guides/install.md#top)"),
        ("docs/a.md", "[x](setup)", "[x](guides/install)"),
        ("docs/a.md", "[x](/setup?v=1#a)", "[x](/guides/install?v=1#a)"),
        ("docs/a.md", "[x](/docs/setup.md)", "[x](/docs/guides/install.md)"),
        ("docs/a.md", '[x](setup.md "Set up")', '[x](guides/install.md "Set up")'),
        ("docs/a.md", "[x](<setup.md>)", "[x](<guides/install.md>)"),
        ("docs/a.md", "[`x`](setup.md) and ![i](setup.md)", "[`x`](guides/install.md) and ![i](guides/install.md)"),
        ("docs/a.md", "[x][s]\n\n[s]: setup.md 'T'", "[x][s]\n\n[s]: guides/install.md 'T'"),
        ("docs/a.md", '<a href="setup.md">x</a>', '<a href="guides/install.md">x</a>'),
        ("docs/a.md", "<a href='setup.html#b'>x</a>", "<a href='guides/install.html#b'>x</a>"),
        ("docs/a.mdx", '<Card title="T"\n  href="/setup">', '<Card title="T"\n  href="/guides/install">'),
        ("docs/a.mdx", "import S from './setup.md'", "import S from './guides/install.md'"),
        ("docs/guides/b.md", "[x](../setup.md)", "[x](install.md)"),
        ("docs/guides/b.md", "[x](../setup/)", "[x](install/)"),
        ("README.md", "[x](docs/setup.md)", "[x](docs/guides/install.md)"),
        ("docs/SUMMARY.md", "* [Set up](setup.md)", "* [Set up](guides/install.md)"),
        ("docs/index.rst", ".. toctree::\n   :maxdepth: 2\n\n   a\n   Set up <setup>", None),
        (
            "docs/index.rst",
            "See :doc:`setup` and :doc:`it <setup>`.",
            "See :doc:`guides/install` and :doc:`it <guides/install>`.",
        ),
        ("docs/index.md", "```{toctree}\nsetup\n```", "```{toctree}\nguides/install\n```"),
        ("docs/a.adoc", "xref:setup.md#a[x]", "xref:guides/install.md#a[x]"),
    ],
)
def test_link_to_the_page_is_updated_in_its_own_style(
    workspace: Make, page: str, before: str, after: str | None
) -> None:
    space = workspace({"docs/setup.md": b"# Setup\n", page: before.encode()})
    assert move_page(space, "docs/setup.md", "docs/guides/install.md") == [page]
    assert space.read(page).decode() == (after or before.replace("<setup>", "<guides/install>"))
    assert not space.exists("docs/setup.md")


@pytest.mark.parametrize(
    "body",
    [
        "```\n[x](setup.md)\n```",
        "~~~~md\n~~~\n[x](setup.md)\n~~~~",
        "> ```\n> [x](setup.md)\n> ```",
        "- ```\n  [x](setup.md)\n  ```",
        "`[x](setup.md)` and ``a ` [x](setup.md)``",
        "Text\n\n    [x](setup.md)",
        "<!-- [x](setup.md) -->",
        "<!--\n[x](setup.md)\n\n```\n-->\n",
        "<pre>\n[x](setup.md)\n</pre>",
        "[x](https://example.com/setup.md) [y](#setup) [z](mailto:setup@example.com)",
        "[x](other/setup.md) setup.md /setup \\[x\\](setup.md)",
    ],
)
def test_code_comments_and_other_links_are_unchanged(workspace: Make, body: str) -> None:
    space = workspace({"docs/setup.md": b"# Setup\n", "docs/a.md": body.encode()})
    assert move_page(space, "docs/setup.md", "docs/install.md") == []


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "docs/docs.json",
            '{"groups": [{"group": "setup", "icon": "setup", "pages": ["index", "setup"]}]}',
            '{"groups": [{"group": "setup", "icon": "setup", "pages": ["index", "guides/install"]}]}',
        ),
        ("docs/mint.json", '{"navigation":[{"pages":["/setup"]}]}', '{"navigation":[{"pages":["/guides/install"]}]}'),
        (
            "docs.json",
            '{"redirects":[{"source":"/setup","destination":"/docs/setup"}]}',
            '{"redirects":[{"source":"/setup","destination":"/docs/guides/install"}]}',
        ),
        (
            "mkdocs.yml",
            "site_name: setup.md\nnav:\n  - setup.md: 'setup.md'\n  - x: setup.md # setup.md\nplugins: [setup.md]\n",
            "site_name: setup.md\nnav:\n  - setup.md: 'guides/install.md'\n"
            "  - x: guides/install.md # setup.md\nplugins: [setup.md]\n",
        ),
        (
            "sidebars.js",
            "module.exports = { docs: ['a', 'setup', {type: 'doc', id: \"setup\", label: 'setup'}] } // 'setup'\n",
            "module.exports = { docs: ['a', 'guides/install', {type: 'doc', id: \"guides/install\", label: 'setup'}] }"
            " // 'setup'\n",
        ),
        (
            "docs/_toc.yml",
            "root: index\nchapters:\n- file: setup\n",
            "root: index\nchapters:\n- file: guides/install\n",
        ),
    ],
)
def test_navigation_entry_is_updated(workspace: Make, path: str, before: str, after: str) -> None:
    space = workspace({"docs/setup.md": b"# Setup\n", path: before.encode()})
    assert move_page(space, "docs/setup.md", "docs/guides/install.md") == [path]
    assert space.read(path).decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a](a.md) ![i](img/i.png) [s](#top)", "[a](../a.md) ![i](../img/i.png) [s](#top)"),
        ("[a](./a) [me](setup.md#x)", "[a](../a) [me](install.md#x)"),
        ("[abs](/docs/a.md) [r](../README.md)", "[abs](/docs/a.md) [r](../../README.md)"),
        ("[folder](img/) [made](api/x.html) [word](todo)", "[folder](../img/) [made](../api/x.html) [word](todo)"),
    ],
)
def test_relative_links_of_the_page_keep_their_targets(workspace: Make, before: str, after: str) -> None:
    files = {"docs/setup.md": before.encode(), "docs/a.md": b"", "docs/img/i.png": b"\0", "README.md": b""}
    space = workspace(files)
    move_page(space, "docs/setup.md", "docs/guides/install.md")
    assert space.read("docs/guides/install.md").decode() == after


def test_imports_of_packages_are_unchanged(workspace: Make) -> None:
    body = b'import Tabs from "@theme/Tabs"\nimport get from "lodash/get"\nimport Note from "./note.mdx"\n'
    space = workspace({"docs/p.mdx": body, "docs/note.mdx": b""})
    move_page(space, "docs/p.mdx", "docs/sub/p.mdx")
    assert space.read("docs/sub/p.mdx") == body.replace(b'"./note.mdx"', b'"../note.mdx"')


def test_role_in_a_code_sample_is_unchanged(workspace: Make) -> None:
    body = b"{doc}`setup`\n\n```\n{doc}`setup`\n```\n"
    space = workspace({"docs/a.md": body, "docs/setup.md": b""})
    move_page(space, "docs/setup.md", "docs/install.md")
    assert space.read("docs/a.md") == b"{doc}`install`\n\n```\n{doc}`setup`\n```\n"


def test_links_to_an_index_may_name_only_its_folder(workspace: Make) -> None:
    space = workspace({"docs/guide/index.md": b"", "docs/a.md": b"[g](guide/)", "docs/guide/b.md": b"[up](./)"})
    assert move_page(space, "docs/guide/index.md", "docs/manual/index.md") == ["docs/a.md", "docs/guide/b.md"]
    assert space.read("docs/a.md") == b"[g](manual/)"
    assert space.read("docs/guide/b.md") == b"[up](../manual/)"


def test_percent_encoding_is_kept_and_added_where_needed(workspace: Make) -> None:
    space = workspace({"my page.md": b"", "a.md": b"[x](my%20page.md) [y](<my page.md>)"})
    move_page(space, "my page.md", "your new page.md")
    assert space.read("a.md") == b"[x](your%20new%20page.md) [y](<your new page.md>)"


def test_a_character_the_file_cannot_hold_is_percent_encoded(workspace: Make) -> None:
    space = workspace({"page.md": b"", "a.md": b"caf\xe9 [x](page.md)"})
    move_page(space, "page.md", "страница.md")
    assert space.read("a.md").startswith(b"caf\xe9 [x](%D1%81")


def test_a_page_can_be_renamed_to_the_same_name_in_another_case(workspace: Make) -> None:
    space = workspace({"docs/Setup.md": b"x", "a.md": b"[x](docs/Setup.md)"})
    assert move_page(space, "docs/Setup.md", "docs/setup.md") == ["a.md"]
    assert space.read("a.md") == b"[x](docs/setup.md)"


@pytest.mark.parametrize("target", ["../x.md", ".git/x.md", "docs/a.md/x.md", "docs/B.md", "docs/b.md", "docs"])
def test_a_refused_target_changes_nothing(workspace: Make, target: str) -> None:
    space = workspace({"docs/setup.md": b"[a](a.md)", "docs/a.md": b"[s](setup.md)", "docs/b.md": b""})
    with pytest.raises(PathRefused):
        move_page(space, "docs/setup.md", target)
    assert space.changes() == {}


PIECES = st.sampled_from(
    [
        "text",
        "été",
        "\r\n",
        "\n",
        "\n\n",
        "\x0c",
        "\r",
        "  ",
        "`",
        "```\n",
        "~~~",
        "[x]",
        "(setup.md)",
        "<!--",
        "-->",
        "---\n",
    ]
)


@pytest.mark.deep
@given(
    before=st.lists(PIECES, max_size=12).map("".join),
    after=st.lists(PIECES, max_size=12).map("".join),
    bom=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    encoding=st.sampled_from(["utf-8", "latin-1"]),
)
def test_no_other_byte_changes(workspace: Make, before: str, after: str, bom: bytes, encoding: str) -> None:
    body = f"{before}[m](setup.md#m){after}".encode(encoding)
    data = (bom if encoding == "utf-8" else b"") + body
    space = workspace({"setup.md": b"", "a.md": data})
    move_page(space, "setup.md", "install.md")
    assert space.read("a.md").replace(b"install.md", b"setup.md") == data


@given(st.lists(PIECES, max_size=20).map("".join))
def test_moving_there_and_back_is_no_change(workspace: Make, body: str) -> None:
    space = workspace({"docs/setup.md": body.encode(), "docs/a.md": body.encode(), "docs/x/b.md": b"[x](../setup.md)"})
    move_page(space, "docs/setup.md", "docs/x/install.md")
    move_page(space, "docs/x/install.md", "docs/setup.md")
    assert space.changes() == {}


@pytest.mark.parametrize(
    ("files", "page", "before", "after"),
    [
        ({}, "docs/index.md", "```{include} setup.md\n```\n", "```{include} guides/install.md\n```\n"),
        ({}, "docs/a.mdx", 'import {\n A\n} from "./setup.md"', 'import {\n A\n} from "./guides/install.md"'),
        ({}, "docs/guides/a.mdx", 'import A from "../setup.md"', 'import A from "./install.md"'),
        ({"mkdocs.yml": ""}, "docs/a.md", '--8<-- "setup.md"', '--8<-- "guides/install.md"'),
        ({"book.toml": '[book]\nsrc = "docs"'}, "docs/a.md", "{{#include setup.md}}", "{{#include guides/install.md}}"),
        (
            {"docs/.vitepress/config.ts": "export default {}"},
            "docs/a.md",
            "<!--@include: ./setup.md-->",
            "<!--@include: ./guides/install.md-->",
        ),
        ({"docs/conf.py": "project = 'x'"}, "docs/b/a.rst", ":doc:`/setup`", ":doc:`/guides/install`"),
        ({"docs/conf.py": "project = 'x'"}, "docs/a.rst", ":download:`setup.md`", ":download:`guides/install.md`"),
        ({"docusaurus.config.js": ""}, "docs/a.md", "[x](@site/docs/setup.md)", "[x](@site/docs/guides/install.md)"),
        ({"docusaurus.config.js": ""}, "docs/a.md", "[x](/en/docs/setup)", "[x](/en/docs/guides/install)"),
        ({"docusaurus.config.js": ""}, "docs/a.mdx", 'import S from "@site/docs/setup.md"', None),
        ({"docs/docs.json": '{"navigation": {}}'}, "docs/a.mdx", "[x](/setup)", "[x](/guides/install)"),
        (
            {"docs/.vitepress/config.ts": "export default {}"},
            "docs/.vitepress/config.ts",
            "export default { themeConfig: { sidebar: [{link: '/setup'}] } }",
            "export default { themeConfig: { sidebar: [{link: '/guides/install'}] } }",
        ),
        ({}, "mkdocs.yml", "nav:\n  - A: &a setup.md\n", "nav:\n  - A: &a guides/install.md\n"),
        (
            {"docusaurus.config.js": ""},
            "versioned_sidebars/version-1-sidebars.json",
            '{"docs": ["other"]}',
            '{"docs": ["other"]}',
        ),
    ],
)
def test_reference_is_updated_by_the_rules_of_its_site(
    workspace: Make, files: dict[str, str], page: str, before: str, after: str | None
) -> None:
    space = workspace(
        {"docs/setup.md": b"# Setup\n", **{path: text.encode() for path, text in files.items()}, page: before.encode()}
    )
    move_page(space, "docs/setup.md", "docs/guides/install.md")
    assert space.read(page).decode() == (after or before.replace("docs/setup", "docs/guides/install"))


def test_link_that_leads_elsewhere_on_its_site_is_unchanged(workspace: Make) -> None:
    """An absolute link starts from the site's own folder, so this one leads to docs/guide.md, not to guide.md."""
    space = workspace(
        {"mkdocs.yml": b"site_name: x\n", "guide.md": b"", "docs/guide.md": b"", "docs/a.md": b"[x](/guide)"}
    )
    assert move_page(space, "guide.md", "old/guide.md") == []


def test_page_with_a_number_or_a_slug_keeps_its_links(workspace: Make) -> None:
    space = workspace(
        {
            "docusaurus.config.js": b"",
            "docs/01-intro.md": b"# Intro\n",
            "docs/b.md": b"---\nslug: /fixed\n---\n",
            "docs/a.md": b"[x](intro) [y](/fixed) [z](/docs/intro)\n",
            "sidebars.js": b"module.exports = {docs: ['intro', 'b']}",
        }
    )
    assert move_page(space, "docs/b.md", "docs/sub/b.md") == ["sidebars.js"]
    assert move_page(space, "docs/01-intro.md", "docs/sub/02-intro.md") == ["docs/a.md", "sidebars.js"]
    assert space.read("sidebars.js") == b"module.exports = {docs: ['sub/intro', 'sub/b']}"
    assert space.read("docs/a.md") == b"[x](sub/02-intro.md) [y](/fixed) [z](/docs/sub/intro)\n"


def test_moved_page_finds_the_same_files_on_its_site(workspace: Make) -> None:
    body = '[x](@site/docs/a.md) [y](./a) [z](~/x)\n\nimport A from "@theme/Tabs"\nimport B from "./b.mdx"\n'
    space = workspace({"docusaurus.config.js": b"", "docs/p.mdx": body.encode(), "docs/a.md": b"", "docs/b.mdx": b""})
    move_page(space, "docs/p.mdx", "docs/sub/p.mdx")
    assert space.read("docs/sub/p.mdx").decode() == body.replace("(./a)", "(../a)").replace('"./b', '"../b')


def test_protected_navigation_does_not_stop_the_move(workspace: Make) -> None:
    config = b"export default { themeConfig: { sidebar: [{link: '/setup'}] } }"
    space = workspace({"docs/setup.md": b"", "docs/.vitepress/config.ts": config, "docs/a.md": b"[x](setup.md)"})

    def refuse_dot_folders(path: str) -> None:
        if "/." in path:
            raise PathRefused(f"{path} is protected.")

    protected = Workspace(space.tree, refuse_dot_folders)
    assert move_page(protected, "docs/setup.md", "docs/install.md") == ["docs/a.md"]
    assert protected.read("docs/.vitepress/config.ts") == config


DOCUSAURUS = {"docusaurus.config.js": b"module.exports = {i18n: {locales: ['en', 'fr']}}"}
VERSION, FRENCH = "versioned_docs/version-1.0", "i18n/fr/docusaurus-plugin-content-docs/current"


@pytest.mark.parametrize("number", ["", "01-"])
@pytest.mark.parametrize(
    ("folder", "links", "entries"),
    [
        ("docs", "/docs/g/intro /docs/1.0/intro /fr/docs/intro /en/docs/g/intro /blog/intro", ("g/intro", "intro")),
        (VERSION, "/docs/intro /docs/1.0/g/intro /fr/docs/intro /en/docs/intro /blog/intro", ("intro", "g/intro")),
        (FRENCH, "/docs/intro /docs/1.0/intro /fr/docs/g/intro /en/docs/intro /blog/intro", ("intro", "intro")),
        ("blog", "/docs/intro /docs/1.0/intro /fr/docs/intro /en/docs/intro /blog/g/intro", ("intro", "intro")),
    ],
)
def test_page_with_the_same_address_in_another_version_keeps_its_links(
    workspace: Make, number: str, folder: str, links: str, entries: tuple[str, str]
) -> None:
    sidebars = ("sidebars.json", "versioned_sidebars/version-1.0-sidebars.json")
    body = " ".join(f"[x]({link})" for link in links.replace("/g/", "/").split())
    space = workspace(
        {
            **DOCUSAURUS,
            **{f"{each}/{number}intro.md": b"" for each in ("docs", "blog", VERSION, FRENCH)},
            **dict.fromkeys(sidebars, b'{"docs": ["intro"]}'),
            "docs/a.md": body.encode(),
        }
    )
    move_page(space, f"{folder}/{number}intro.md", f"{folder}/g/{number}intro.md")
    assert space.read("docs/a.md").decode() == " ".join(f"[x]({link})" for link in links.split())
    assert tuple(space.read(path).decode() for path in sidebars) == tuple(f'{{"docs": ["{each}"]}}' for each in entries)


def test_relative_link_in_a_version_leads_to_the_same_version(workspace: Make) -> None:
    space = workspace({**DOCUSAURUS, "docs/01-a.md": b"", f"{VERSION}/01-a.md": b"", f"{VERSION}/b.md": b"[x](a)"})
    assert move_page(space, "docs/01-a.md", "docs/g/01-a.md") == []


@pytest.mark.parametrize(
    ("files", "old", "new", "page", "after"),
    [
        ({"docs/guide.md": "[x](setup.md)"}, "docs/setup.md", "docs/guide/setup.md", "docs/guide.md", "guide/setup.md"),
        ({"docs/a.md": "[x](../README.md)"}, "README.md", "docs/README.md", "docs/a.md", "README.md"),
        ({"docs/h.md": "[x](a.md)", "docs/a.md": ""}, "docs/h.md", "docs/h/index.md", "docs/h/index.md", "../a.md"),
        ({"docs/h/index.md": "[x](../a.md)", "docs/a.md": ""}, "docs/h/index.md", "docs/h.md", "docs/h.md", "a.md"),
        ({"docs/h/index.md": "[x](../i.png)", "docs/i.png": ""}, "docs/h/index.md", "docs/h.md", "docs/h.md", "i.png"),
        ({"docs/h/index.md": "[x](../a/)", "docs/a.md": ""}, "docs/h/index.md", "docs/h.md", "docs/h.md", "../a/"),
        ({"docs/h.md": "[x](../a/)", "docs/a.md": ""}, "docs/h.md", "docs/h/index.md", "docs/h/index.md", "../a/"),
        (
            {"docs/g/a.md": "[x](s.md)", "docusaurus.config.js": ""},
            "docs/g/s.md",
            "docs/s.md",
            "docs/g/a.md",
            "../s.md",
        ),
    ],
)
def test_link_is_not_left_to_a_less_common_way_of_finding_its_file(
    workspace: Make, files: dict[str, str], old: str, new: str, page: str, after: str
) -> None:
    """The resolver would find the file by the old link too, as if the page were a folder, or from the site's root."""
    contents = {"mkdocs.yml": ""} | files if "docusaurus.config.js" not in files else files
    space = workspace({old: b"", **{path: text.encode() for path, text in contents.items()}})
    move_page(space, old, new)
    assert space.read(page).decode() == f"[x]({after})"


@pytest.mark.parametrize(
    ("config", "before", "after"),
    [
        ("mkdocs.yml", "setup/#top", "guides/#top"),
        ("mkdocs.yml", "setup#top", "guides#top"),
        ("mkdocs.yml", "setup.md", "guides/index.md"),
        ("mkdocs.yml", "/setup/", "/guides/"),
        ("docusaurus.config.js", "./setup", "./guides"),
        ("docusaurus.config.js", "/docs/setup", "/docs/guides"),
        ("docusaurus.config.js", "/en/docs/setup#top", "/en/docs/guides#top"),
        ("docs/.vitepress/config.ts", "/setup", "/guides/index"),
        ("docs/.vitepress/config.ts", "./setup.html", "./guides/index.html"),
    ],
)
def test_address_of_a_page_that_becomes_an_index_is_its_folder(
    workspace: Make, config: str, before: str, after: str
) -> None:
    """MkDocs and Docusaurus serve nothing at `guides/index`; VitePress reads an address without a slash as a file."""
    space = workspace({config: b"", "docs/setup.md": b"# Top\n", "docs/index.md": f"[x]({before})".encode()})
    move_page(space, "docs/setup.md", "docs/guides/index.md")
    assert space.read("docs/index.md").decode() == f"[x]({after})"


@pytest.mark.parametrize(
    ("config", "include"),
    [("docs/.vitepress/config.ts", "<!--@include: {}-->"), ("_config.yml", "{{% include_relative {} %}}")],
)
def test_relative_include_starts_from_the_folder_of_its_page(workspace: Make, config: str, include: str) -> None:
    space = workspace({config: b"", "docs/g/a.md": include.format("./s.md").encode(), "docs/g/s.md": b""})
    move_page(space, "docs/g/s.md", "docs/s.md")
    assert space.read("docs/g/a.md").decode() == include.format("../s.md")
    move_page(space, "docs/g/a.md", "docs/g/h/a.md")
    assert space.read("docs/g/h/a.md").decode() == include.format("../../s.md")


@pytest.mark.parametrize("ext", [".adoc", ".txt"])
def test_link_without_extension_leads_to_a_page_of_any_kind_where_there_is_no_site(workspace: Make, ext: str) -> None:
    space = workspace({f"docs/s{ext}": b"", "docs/a.md": b"[x](s)"})
    move_page(space, f"docs/s{ext}", f"docs/g/s{ext}")
    assert space.read("docs/a.md") == b"[x](g/s)"


def test_address_has_no_number_and_a_path_no_space(workspace: Make) -> None:
    body = b"[x](s) [y](/docs/s) [z](s.md) [s](@site/docs/s.md)"
    space = workspace({**DOCUSAURUS, "docs/a.md": body, "docs/s.md": b""})
    move_page(space, "docs/s.md", "docs/g/02-s t.md")
    assert (
        space.read("docs/a.md") == b"[x](g/s%20t) [y](/docs/g/s%20t) [z](g/02-s%20t.md) [s](@site/docs/g/02-s%20t.md)"
    )
