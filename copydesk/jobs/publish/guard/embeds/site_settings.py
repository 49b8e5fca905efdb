"""Settings files of site generators."""

import posixpath
from fnmatch import fnmatchcase

HARMLESS_KEYS: dict[str, tuple[str, ...]] = {
    "mkdocs.y*ml": ("nav", "site_name", "site_description", "not_in_nav"),
    "docs.json": ("navigation", "name", "description"),
    "mint.json": ("navigation", "name", "tabs", "anchors"),
    "_config.y*ml": ("title", "description", "nav", "navigation", "header_pages", "nav_external_links"),
    "_config.toml": ("title", "description"),
    "hugo.*": ("title", "menu", "menus"),
    "antora.yml": ("title", "nav"),
    "antora-playbook.y*ml": (),
    "_quarto.y*ml": (),
    "_variables.y*ml": (),
    "myst.yml": ("toc",),
    "docfx.json": (),
    "zensical.toml": (),
    "theme.toml": (),
    "gitbook.y*ml": (),
}
"""Glob patterns of settings files, each with the keys that contain only titles and menus."""


def is_site_settings(path: str) -> bool:
    return find_harmless_keys(path) is not None


def find_harmless_keys(path: str) -> tuple[str, ...] | None:
    """Returns the keys that contain only titles and menus, or None if the file is not a settings file."""
    name = posixpath.basename(path).lower()
    return next((keys for pattern, keys in HARMLESS_KEYS.items() if fnmatchcase(name, pattern)), None)
