"""Fixing links uses the judgment of the checks: it changes only what they call broken."""

import pytest

from tests.jobs.agent.mechanic.test_mechanic import Make, run_mechanic

MKDOCS = {
    "mkdocs.yml": b"site_name: x\n",
    "docs/index.md": b"# Home\n",
    "docs/guide/setup.md": b"# Set up\n\n## Step one\n",
    "docs/img/logo.png": b"\0",
}


@pytest.mark.parametrize(
    "body",
    [
        b'<img src="../../img/logo.png">\n',
        b'<img src="../../../../../img/logo.png">\n',
        b'<img src="../../../img/logo.png">\n',
        b"[x](setup.md/#step-one) [y](setup.md#step-one)\n",
        b"[x](/app/login) [y](../setup/) [z](../img/logo.png)\n",
    ],
)
def test_working_and_unjudged_links_are_left(workspace: Make, body: bytes) -> None:
    space = workspace({**MKDOCS, "docs/guide/a.md": body})
    done = run_mechanic(space, "fix broken links")
    assert space.changes() == {}
    assert "Needs a person" not in done.summary


@pytest.mark.parametrize(
    ("files", "body", "fixed"),
    [
        ("mkdocs", b'<img src="../img/logo.png">', b'<img src="../../img/logo.png">'),
        ("mkdocs", b"![x](../../img/logo.png)", b"![x](../img/logo.png)"),
        ("mkdocs", b"[x](../setup.md)", b"[x](setup.md)"),
        ("vitepress", b"[x](../setup)", b"[x](setup)"),
        ("vitepress", b"[x](../../img/logo.png)", b"[x](../img/logo.png)"),
        ("sphinx", b"[x](../setup.md#step-one)", b"[x](setup.md#step-one)"),
        ("docusaurus", b"[x](../setup)", b"[x](setup)"),
        ("docusaurus with slash", b"[x](./setup)", b"[x](../setup)"),
        ("docusaurus", b"[x](../setup.md)", b"[x](setup.md)"),
    ],
)
def test_link_that_starts_in_the_wrong_folder_is_fixed(workspace: Make, files: str, body: bytes, fixed: bytes) -> None:
    configurations = {
        "mkdocs": {"mkdocs.yml": b"site_name: x\n"},
        "vitepress": {"docs/.vitepress/config.ts": b"export default {}"},
        "sphinx": {"docs/conf.py": b"extensions = ['myst_parser']\n"},
        "docusaurus": {"docusaurus.config.js": b"module.exports = {}"},
        "docusaurus with slash": {"docusaurus.config.js": b"module.exports = {trailingSlash: true}"},
    }
    pages = {path: data for path, data in MKDOCS.items() if path != "mkdocs.yml"}
    space = workspace({**configurations[files], **pages, "docs/guide/a.md": body})
    run_mechanic(space, "fix broken links")
    assert space.changes() == {"docs/guide/a.md": fixed}


def test_links_that_cannot_be_judged_are_counted_with_the_reason(workspace: Make) -> None:
    files = {"hugo.toml": b"title = 'x'\n", "content/a.md": b"[x](b.md) [y](c.md)\n", "content/e.adoc": b"= E\n"}
    done = run_mechanic(workspace(files), "fix broken links")
    assert "No link is surely broken, but not every link could be judged." in done.summary
    reason = "2 links because templates of Hugo may add pages (content/a.md:1 b.md, content/a.md:1 c.md)"
    assert f"Not judged: {reason}." in done.summary
    assert "Not checked, because the checks do not read these pages: content/e.adoc." in done.summary


@pytest.mark.parametrize(
    ("page", "link", "fixed"),
    [
        ("docs/fr/guide/a.md", b"[x](instal.md)", b"[x](../setup/install.md)"),
        ("docs/en/guide/a.md", b"[x](install.md)", b"[x](../setup/install.md)"),
        ("docs/en/guide/b.md", b"[x](../gone/tips.md)", b"[x](tips.md)"),
    ],
)
def test_target_in_the_same_folder_and_language_is_preferred(
    workspace: Make, page: str, link: bytes, fixed: bytes
) -> None:
    twins = {f"docs/{each}/setup/install.md": b"" for each in ("en", "fr", "ja")}
    tips = {"docs/en/guide/tips.md": b"", "docs/en/other/tips.md": b""}
    space = workspace({"mkdocs.yml": b"site_name: x\n", **twins, **tips, page: link})
    run_mechanic(space, "fix broken links")
    assert space.changes() == {page: fixed}


def test_target_in_the_same_version_is_preferred(workspace: Make) -> None:
    config = {"docusaurus.config.js": b"module.exports = {}", "versions.json": b'["1.0"]'}
    pages = {"docs/setup/install.md": b"", "versioned_docs/version-1.0/setup/install.md": b""}
    link = {"versioned_docs/version-1.0/a.md": b"[x](./instal.md)"}
    space = workspace({**config, **pages, **link})
    run_mechanic(space, "fix broken links")
    assert space.changes() == {"versioned_docs/version-1.0/a.md": b"[x](./setup/install.md)"}


def test_unrelated_pages_with_the_same_name_are_left_to_a_person(workspace: Make) -> None:
    pages = {"docs/a/x/config.md": b"", "docs/b/config.md": b"", "docs/a/page.md": b"[x](config.md)"}
    space = workspace({"mkdocs.yml": b"site_name: x\n", **pages})
    done = run_mechanic(space, "fix broken links")
    assert space.changes() == {}
    assert "docs/a/page.md:1 config.md" in done.summary


def test_documents_and_images_of_sphinx_are_fixed(workspace: Make) -> None:
    body = b"A\n=\n\n:doc:`instal` :doc:`t </guide/instal>` :doc:`nowhere`\n\n.. image:: logo.png\n"
    files = {"docs/conf.py": b"project = 'x'\n", "docs/guide/install.rst": b"I\n=\n", "docs/img/logo.png": b"\0"}
    space = workspace({**files, "docs/guide/a.rst": body})
    done = run_mechanic(space, "fix broken links")
    assert space.changes()["docs/guide/a.rst"] == (
        b"A\n=\n\n:doc:`install` :doc:`t </guide/install>` :doc:`nowhere`\n\n.. image:: ../img/logo.png\n"
    )
    assert "docs/guide/a.rst:4 nowhere" in done.summary


@pytest.mark.parametrize(
    ("link", "fixed"),
    [
        (b"[x](intsall.md)", b"[x](install.md)"),
        (b"[x](install.md#isntall)", b"[x](install.md#install)"),
        (b"[x](intsall.md#isntall)", b"[x](install.md#install)"),
        (b"[x](fqa.md)", b"[x](faq.md)"),
        (b"[x](#tpo-ics)", b"[x](#top-ics)"),
        (b"[x](install.md#set-pu-the-server)", b"[x](install.md#set-up-the-server)"),
    ],
)
def test_swapped_letters_are_put_right(workspace: Make, link: bytes, fixed: bytes) -> None:
    body = b"## Top-ics\n\n" + link + b"\n"
    pages = {"docs/install.md": b"# Install\n\n## Set up the server\n", "docs/faq.md": b"", "docs/a.md": body}
    space = workspace({"mkdocs.yml": b"site_name: x\n", **pages})
    run_mechanic(space, "fix broken links")
    assert space.changes() == {"docs/a.md": body.replace(link, fixed)}


@pytest.mark.parametrize(
    "link",
    [
        b"[x](clli.md)",  # no letters are swapped
        b"[x](form.md)",  # two candidates
        b"[x](install.md#dn)",  # too short
        b"[x](install.md#abcd)",  # two candidates
        b"[x](install.md#tset)",  # two pairs would have to be swapped
        b"[x](install.md#step-21)",  # another number
        b"[x](v21.md)",
    ],
)
def test_swapped_letters_are_never_guessed(workspace: Make, link: bytes) -> None:
    anchors = b"# Nd\n## Bacd\n## Abdc\n## Sett\n## Step 12\n"
    names = ("cli", "from", "ofrm", "v12")
    pages = {"docs/install.md": anchors, **{f"docs/{name}.md": b"" for name in names}, "docs/a.md": link}
    space = workspace({"mkdocs.yml": b"site_name: x\n", **pages})
    done = run_mechanic(space, "fix broken links")
    assert space.changes() == {}
    target = link.decode().partition("(")[2].rstrip(")")
    assert f"Needs a person, because no single target is clear: docs/a.md:1 {target}." in done.summary


def test_all_links_that_are_left_are_listed_with_their_lines(workspace: Make) -> None:
    body = b"".join(b"[x](gone-%d.md)\n" % number for number in range(60))
    done = run_mechanic(workspace({"mkdocs.yml": b"site_name: x\n", "docs/a.md": body}), "fix broken links")
    assert all(f"docs/a.md:{number + 1} gone-{number}.md" in done.summary for number in range(60))


def test_comment_on_a_line_lists_only_what_is_left_on_that_line(workspace: Make) -> None:
    space = workspace({"mkdocs.yml": b"site_name: x\n", "docs/a.md": b"[x](gone.md)\n[y](lost.md)\n"})
    done = run_mechanic(space, "fix the broken links\n\nThis is a review comment on docs/a.md, line 2.")
    assert "docs/a.md:2 lost.md" in done.summary
    assert "gone.md" not in done.summary
