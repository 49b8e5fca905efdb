"""Decides by the path alone whether a file is a page."""

import posixpath
import re

MARKDOWN_EXTENSIONS = (".md", ".mdx", ".markdown")
IMAGE_EXTENSIONS = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".avif")
PAGE_EXTENSIONS = (*MARKDOWN_EXTENSIONS, ".rst", ".adoc", ".txt")
INDEX_NAMES = ("index", "README", "readme", "_index", "Readme", "Index")
# Not documentation outside of a site; jobs may not change some of these files.
NON_PAGE_NAME_PATTERN = re.compile(
    r"(requirements.*|constraints.*|licen[cs]e.*|copying|notice|cmakelists|robots|agents|claude)\.\w+", re.I
)
SKIPPED_FOLDERS = {"node_modules", "vendor", "third_party"}
# Pages for contributors to the repository, which a site does not show.
REPOSITORY_FILE_PATTERN = re.compile(
    r"(readme|changelog|changes|contributing|code_of_conduct|security|support|governance|authors|history)\.\w+", re.I
)
PARTIAL_FOLDERS = {"snippets", "partials", "includes", "fragments", "templates", "_includes"}
"""Folders of texts that other pages include."""
MARKDOWN_NAV_FILES = ("SUMMARY.md", "_sidebar.md", "_navbar.md", "_coverpage.md")


def extension(path: str) -> str:
    return posixpath.splitext(path)[1].lower()


def strip_extension(path: str) -> str:
    return posixpath.splitext(path)[0]


def stem(path: str) -> str:
    return strip_extension(posixpath.basename(path))


def is_page(path: str, in_site: bool = False) -> bool:
    """Returns whether a file is text for readers. Jobs do not edit dot folders and third-party code.

    `in_site` is whether a site shows the file. Then names such as `license.md` are those of pages, unless they are at
    the top of the repository or of plain text."""
    *folders, name = path.split("/")
    if extension(name) not in PAGE_EXTENSIONS or name.startswith("."):
        return False
    if NON_PAGE_NAME_PATTERN.fullmatch(name) and not (in_site and folders and extension(name) != ".txt"):
        return False
    return not any(folder.startswith(".") or folder in SKIPPED_FOLDERS for folder in folders)


def is_site_page(path: str, in_site: bool = False) -> bool:
    """Returns whether a site shows this Markdown page under its own address, so that its front matter has a meaning."""
    *folders, name = path.split("/")
    if not is_page(path, in_site) or extension(name) not in MARKDOWN_EXTENSIONS or name in MARKDOWN_NAV_FILES:
        return False
    if "snippets" in folders or (name.startswith("_") and stem(name) not in INDEX_NAMES):
        return False
    return bool(folders) or not REPOSITORY_FILE_PATTERN.fullmatch(name)
