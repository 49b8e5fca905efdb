"""How a site reads its pages, told from the settings that the repository has: dialects differ on what is code."""

import posixpath

from copydesk.jobs.publish.guard.embeds.urls import Dialect
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Changes

MDX = (
    "docusaurus.config.",
    "docs.json",
    "mint.json",
    "next.config.",
    "theme.config.",
    "gatsby-config.",
    "astro.config.",
)
MKDOCS = ("mkdocs.yml", "mkdocs.yaml", "zensical.toml")
JEKYLL = ("_config.yml", "_config.yaml", "_config.toml")


def find_dialects(tree: Tree, changes: Changes) -> frozenset[Dialect]:
    """Returns the dialects that some site of this repository reads its pages in."""
    found: set[Dialect] = set()
    for path, entry in tree.files():
        name = posixpath.basename(path)
        if name.startswith(MDX):
            found.add("mdx")
        elif name in MKDOCS:
            settings = tree.read(entry)
            found.update(("strict fences",) if b"superfences" not in settings else ())
            found.update(("templates",) if b"macros" in settings else ())
        elif name in JEKYLL:
            found.update(("strict fences", "templates"))
        elif "/.vitepress/" in f"/{path}":
            found.add("templates")
    names = {posixpath.basename(path) for path, data in changes.items() if data is not None}
    return frozenset(found | ({"strict fences", "templates"} if names & {*MKDOCS, *JEKYLL} else set()))
