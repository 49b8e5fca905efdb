"""A relative link starts from one folder, which the generator and the form of the link decide.

Each row was built with the generator, strictly, where the generator checks such links itself.
"""

import pytest

from copydesk.jobs.checks import check
from tests.jobs.conftest import Files, MakeWorkspace

PAGES = {
    "docs/index.md": b"# Home\n",
    "docs/guides/index.md": b"# Guides\n",
    "docs/guides/quickstart.md": b"# Quickstart\n",
    "docs/guides/flow.svg": b"<svg/>",
    "docs/reference/client.md": b"# Client\n",
}
DOCUSAURUS = {**PAGES, "static/img/flow.svg": b"<svg/>"}
CONFIGURATIONS: dict[str, Files] = {
    "mkdocs": {**PAGES, "mkdocs.yml": b"site_name: x\n"},
    "mkdocs without folders": {**PAGES, "mkdocs.yml": b"site_name: x\nuse_directory_urls: false\n"},
    "sphinx": {**PAGES, "docs/conf.py": b"extensions = ['myst_parser']\n"},
    "docusaurus": {**DOCUSAURUS, "docusaurus.config.js": b"module.exports = {};\n"},
    "docusaurus with slash": {**DOCUSAURUS, "docusaurus.config.js": b"module.exports = {trailingSlash: true};\n"},
    "docusaurus without slash": {**DOCUSAURUS, "docusaurus.config.js": b"module.exports = {trailingSlash: false};\n"},
    "docusaurus with either": {**DOCUSAURUS, "docusaurus.config.js": b"module.exports = {trailingSlash: slash};\n"},
    "vitepress": {**PAGES, "docs/.vitepress/config.ts": b"export default {};\n", "docs/public/logo.png": b"x"},
    "mdbook": {
        **{f"src{path[4:]}": data for path, data in PAGES.items()},
        "book.toml": b"[book]\n",
        "src/SUMMARY.md": b"- [Retries](guides/retries.md)\n",
    },
    "mintlify": {
        **{path[5:]: data for path, data in PAGES.items()},
        "docs.json": b'{"navigation": {"pages": ["guides/retries"]}}',
    },
    "jekyll": {**{path[5:]: data for path, data in PAGES.items()}, "_config.yml": b"title: x\n"},
    "no site": {**PAGES},
}
VALID, BROKEN, DOUBTFUL = "valid", "broken", "not judged"
ROWS = [
    # A link to a source file starts from the folder of its page.
    *((kind, "[x](../quickstart.md)", BROKEN) for kind in CONFIGURATIONS),
    *((kind, "[x](quickstart.md)", VALID) for kind in CONFIGURATIONS),
    *((kind, "[x](../reference/client.md)", VALID) for kind in CONFIGURATIONS),
    *((kind, "[x](../../reference/client.md)", BROKEN) for kind in CONFIGURATIONS if kind in ("mkdocs", "sphinx")),
    # So does an image in Markdown.
    *((kind, "![x](../flow.svg)", BROKEN) for kind in CONFIGURATIONS if kind != "jekyll"),
    *((kind, "![x](flow.svg)", VALID) for kind in CONFIGURATIONS),
    # An index page has the address of its folder, and no folder of its own.
    ("mkdocs", "[x](../../guides/)", VALID),
    ("mkdocs", "[x](../../guides/index/)", DOUBTFUL),
    # A link without an extension starts from the address, which is a folder on some sites.
    ("mkdocs", "[x](../quickstart/)", VALID),
    ("mkdocs", "[x](quickstart/)", DOUBTFUL),
    ("mkdocs without folders", "[x](../quickstart.html)", DOUBTFUL),
    ("docusaurus", "[x](./quickstart)", VALID),
    ("docusaurus", "[x](../quickstart)", BROKEN),
    ("docusaurus", "[x](../reference/client)", VALID),
    ("docusaurus with slash", "[x](../quickstart)", VALID),
    ("docusaurus with slash", "[x](./quickstart)", BROKEN),
    ("docusaurus without slash", "[x](./quickstart)", VALID),
    ("docusaurus without slash", "[x](../quickstart)", BROKEN),
    ("docusaurus with either", "[x](./quickstart)", VALID),
    ("docusaurus with either", "[x](../quickstart)", VALID),
    ("vitepress", "[x](./quickstart)", VALID),
    ("vitepress", "[x](../quickstart)", BROKEN),
    ("vitepress", "[x](../quickstart.html)", BROKEN),
    ("vitepress", "[x](../reference/client)", VALID),
    ("mdbook", "[x](quickstart.html)", VALID),
    ("mdbook", "[x](../quickstart.html)", BROKEN),
    ("sphinx", "[x](../quickstart)", DOUBTFUL),
    ("mintlify", "[x](../quickstart)", BROKEN),
    ("mintlify", "[x](./quickstart)", VALID),
    ("jekyll", "[x](../quickstart)", VALID),
    # Raw HTML stays as it is written, and starts from the address on every site, except for what a build rewrites.
    ("mkdocs", '<img src="../flow.svg">', VALID),
    ("mkdocs", '<img src="flow.svg">', BROKEN),
    ("mkdocs without folders", '<img src="flow.svg">', VALID),
    ("mkdocs without folders", '<img src="../flow.svg">', BROKEN),
    ("vitepress", '<img src="flow.svg">', VALID),
    ("vitepress", '<img src="../flow.svg">', BROKEN),
    ("mdbook", '<a href="../quickstart.md">x</a>', BROKEN),
    ("mdbook", '<a href="quickstart.md">x</a>', VALID),
    ("docusaurus", '<img src="flow.svg"/>', DOUBTFUL),
    ("docusaurus", '<img src="../../img/flow.svg"/>', VALID),
    ("docusaurus", '<a href="./quickstart">x</a>', VALID),
    ("docusaurus", '<a href="../quickstart">x</a>', BROKEN),
    ("sphinx", '<img src="../flow.svg">', DOUBTFUL),
    # Docusaurus searches for a name without dots in the content and in the folder of the site too.
    ("docusaurus", "[x](reference/client.md)", VALID),
    ("docusaurus", "[x](docs/reference/client.md)", VALID),
    ("docusaurus", "[x](./reference/client.md)", BROKEN),
]


@pytest.mark.parametrize(("configuration", "link", "verdict"), ROWS, ids=lambda value: value)
def test_relative_link_starts_where_its_generator_says(
    configuration: str, link: str, verdict: str, workspace: MakeWorkspace
) -> None:
    files = CONFIGURATIONS[configuration]
    folder = next(path for path in files if path.endswith("guides/quickstart.md")).removesuffix("quickstart.md")
    assert judge(workspace, files, f"{folder}retries.md", link) == verdict


@pytest.mark.parametrize(
    ("configuration", "page", "link", "verdict"),
    [
        ("mkdocs", "docs/other/index.md", "[x](../guides/quickstart/)", VALID),
        ("mkdocs", "docs/other/index.md", "[x](../../guides/quickstart/)", DOUBTFUL),
        ("docusaurus", "docs/other/index.md", "[x](../guides/quickstart)", VALID),
        ("docusaurus", "docs/other/index.md", "[x](./guides/quickstart)", BROKEN),
        ("docusaurus without slash", "docs/other/index.md", "[x](./guides/quickstart)", VALID),
        ("docusaurus without slash", "docs/other/index.md", "[x](../guides/quickstart)", DOUBTFUL),
        ("docusaurus", "docs/other/README.md", "[x](../guides/quickstart)", VALID),
        ("docusaurus", "docs/other/Other.md", "[x](../guides/quickstart)", VALID),
        ("docusaurus", "docs/01-other/02-new.md", "[x](../guides/quickstart)", VALID),
        ("docusaurus", "docs/01-other/02-new.md", "[x](../../guides/quickstart)", DOUBTFUL),
        ("vitepress", "docs/other/index.md", "[x](../guides/quickstart)", VALID),
        ("vitepress", "docs/other/index.md", "[x](./guides/quickstart)", BROKEN),
    ],
)
def test_index_page_is_served_from_its_folder(
    configuration: str, page: str, link: str, verdict: str, workspace: MakeWorkspace
) -> None:
    assert judge(workspace, CONFIGURATIONS[configuration], page, link) == verdict


def test_relative_link_starts_from_the_slug_of_a_docusaurus_page(workspace: MakeWorkspace) -> None:
    files = CONFIGURATIONS["docusaurus"]
    page = "docs/guides/retries.md"
    assert judge(workspace, files, page, "---\nslug: /reference/retries\n---\n[x](./client)") == VALID
    assert judge(workspace, files, page, "---\nslug: /reference/retries\n---\n[x](./quickstart)") == BROKEN


@pytest.mark.parametrize(
    ("configuration", "link", "verdict"),
    [
        ("mkdocs", "[x](/docs/guides/quickstart.md)", DOUBTFUL),
        ("sphinx", "[x](/docs/guides/quickstart.md)", DOUBTFUL),
        ("sphinx", "[x](/guides/quickstart.md)", VALID),
        ("vitepress", "[x](/docs/guides/quickstart.md)", BROKEN),
        ("vitepress", "[x](/guides/quickstart.md)", VALID),
        ("vitepress", "![x](/docs/guides/flow.svg)", BROKEN),
        ("mdbook", "[x](/src/guides/quickstart.md)", DOUBTFUL),
        ("docusaurus", "![x](/static/img/flow.svg)", BROKEN),
        ("docusaurus", "![x](/img/flow.svg)", VALID),
        ("docusaurus", "[x](/docs/guides/quickstart.md)", VALID),
        ("no site", "[x](/docs/guides/quickstart.md)", VALID),
    ],
)
def test_path_from_the_top_of_the_repository_counts_only_without_a_site(
    configuration: str, link: str, verdict: str, workspace: MakeWorkspace
) -> None:
    files = CONFIGURATIONS[configuration]
    folder = next(path for path in files if path.endswith("guides/quickstart.md")).removesuffix("quickstart.md")
    assert judge(workspace, files, f"{folder}retries.md", link) == verdict


@pytest.mark.parametrize(
    ("link", "verdict"),
    [("![x](/logo.png)", VALID), ("![x](/logo2.png)", BROKEN), ("[x](/whitepaper.pdf)", DOUBTFUL)],
)
def test_image_at_the_root_of_the_public_folder_is_judged(link: str, verdict: str, workspace: MakeWorkspace) -> None:
    assert judge(workspace, CONFIGURATIONS["vitepress"], "docs/guides/retries.md", link) == verdict


def judge(workspace: MakeWorkspace, files: Files, page: str, text: str) -> str:
    """Returns what the checks say of the only reference of a page that a job adds."""
    edited = workspace(files)
    edited.write(page, f"{text}\n".encode())
    report = check(edited)
    found = [each for each in report.introduced if each.rule in ("link", "image")]
    doubted = [each for each in report.not_judged if each.rule in ("link", "image")]
    assert len(found) + len(doubted) <= 1
    return BROKEN if found else DOUBTFUL if doubted else VALID
