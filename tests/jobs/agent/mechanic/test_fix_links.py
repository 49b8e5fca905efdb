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
        b'<img src="../img/logo.png">\n',
        b'<img src="../../../../../img/logo.png">\n',
        b'<img src="../../../img/logo.png">\n',
        b"[x](setup.md/#step-one) [y](setup.md#step-one)\n",
        b"[x](/app/login) [y](../setup/) [z](../../img/logo.png)\n",
    ],
)
def test_working_and_unjudged_links_are_left(workspace: Make, body: bytes) -> None:
    space = workspace({**MKDOCS, "docs/guide/a.md": body})
    done = run_mechanic(space, "fix broken links")
    assert space.changes() == {}
    assert "Needs a person" not in done.summary


def test_links_that_cannot_be_judged_are_counted_with_the_reason(workspace: Make) -> None:
    files = {"hugo.toml": b"title = 'x'\n", "content/a.md": b"[x](b.md) [y](c.md)\n", "content/e.adoc": b"= E\n"}
    done = run_mechanic(workspace(files), "fix broken links")
    assert "No link is surely broken, but not every link could be judged." in done.summary
    reason = "2 links because templates of Hugo may add pages (for example content/a.md:1 b.md)"
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
