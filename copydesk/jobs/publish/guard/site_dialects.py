"""Detects the Markdown dialects of a repository's sites from their settings. Dialects differ on what is code."""

import posixpath

from copydesk.jobs.publish.guard.embeds.urls import Dialect
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Changes

MDX_SETTINGS_PREFIXES = (
    "docusaurus.config.",
    "docs.json",
    "mint.json",
    "next.config.",
    "theme.config.",
    "gatsby-config.",
    "astro.config.",
)
MKDOCS_SETTINGS = ("mkdocs.yml", "mkdocs.yaml", "zensical.toml")
JEKYLL_SETTINGS = ("_config.yml", "_config.yaml", "_config.toml")


def find_dialects(tree: Tree, changes: Changes) -> frozenset[Dialect]:
    """Returns the dialects of all sites in this repository.

    A change to MkDocs or Jekyll settings adds the dialects that these settings can select.
    """
    dialects: set[Dialect] = set()
    for path, entry in tree.files():
        name = posixpath.basename(path)
        if name.startswith(MDX_SETTINGS_PREFIXES):
            dialects.add("mdx")
        elif name in MKDOCS_SETTINGS:
            settings = tree.read(entry)
            dialects.update(("strict fences",) if b"superfences" not in settings else ())
            dialects.update(("templates",) if b"macros" in settings else ())
        elif name in JEKYLL_SETTINGS:
            dialects.update(("strict fences", "templates"))
        elif "/.vitepress/" in f"/{path}":
            dialects.add("templates")
    changed_names = {posixpath.basename(path) for path, data in changes.items() if data is not None}
    return frozenset(
        dialects | ({"strict fences", "templates"} if changed_names & {*MKDOCS_SETTINGS, *JEKYLL_SETTINGS} else set())
    )
