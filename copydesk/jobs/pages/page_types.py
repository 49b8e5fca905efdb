"""Which files are pages, told from their path alone."""

import posixpath
import re

MARKDOWN_EXTENSIONS = (".md", ".mdx", ".markdown")
PAGE_EXTENSIONS = (*MARKDOWN_EXTENSIONS, ".rst", ".adoc", ".txt")
INDEX_NAMES = ("index", "README", "readme", "_index")
# Not documentation, whatever they end with; some of them no agent may change.
NON_PAGE_NAME_PATTERN = re.compile(
    r"(requirements.*|constraints.*|licen[cs]e.*|copying|notice|cmakelists|robots|agents|claude)\.\w+", re.I
)
SKIPPED_FOLDERS = {"node_modules", "vendor", "third_party"}
# Pages for those who work on the repository; a site does not show them.
REPOSITORY_FILE_PATTERN = re.compile(
    r"(readme|changelog|changes|contributing|code_of_conduct|security|support|governance|authors|history)\.\w+", re.I
)
MARKDOWN_NAV_FILES = ("SUMMARY.md", "_sidebar.md", "_navbar.md", "_coverpage.md")


def extension(path: str) -> str:
    return posixpath.splitext(path)[1].lower()


def strip_extension(path: str) -> str:
    return posixpath.splitext(path)[0]


def stem(path: str) -> str:
    return strip_extension(posixpath.basename(path))


def is_page(path: str) -> bool:
    """Text that people read. Dot folders and the work of others are not ours to edit."""
    *folders, name = path.split("/")
    if extension(name) not in PAGE_EXTENSIONS or name.startswith(".") or NON_PAGE_NAME_PATTERN.fullmatch(name):
        return False
    return not any(folder.startswith(".") or folder in SKIPPED_FOLDERS for folder in folders)


def is_site_page(path: str) -> bool:
    """A Markdown page that a site shows under its own address, so that front matter means something in it."""
    *folders, name = path.split("/")
    if not is_page(path) or extension(name) not in MARKDOWN_EXTENSIONS or name in MARKDOWN_NAV_FILES:
        return False
    if "snippets" in folders or (name.startswith("_") and stem(name) not in INDEX_NAMES):
        return False
    return bool(folders) or not REPOSITORY_FILE_PATTERN.fullmatch(name)
