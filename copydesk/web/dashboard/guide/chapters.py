"""The files of the guide: which there are, in which order, and how their names become URLs."""

import re
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

GUIDE_URL = "/docs/guide"
SOURCE_URL = "https://github.com/copydesk/copydesk"
CHAPTERS = {
    "Getting started": ("quickstart", "dashboard", "cli", "settings", "mail"),
    "Jobs": ("agent", "prompts", "automations", "ci", "forges", "models", "mechanic", "checks"),
    "Analytics": ("collect", "analytics", "ai-traffic", "stale-pages", "privacy", "sharing", "history", "export"),
    "API": ("api", "webhooks", "mcp", "drop-in"),
    "Operations": (
        *("deploy", "operations", "observability", "backup", "scale", "clickhouse", "security"),
        "architecture",
    ),
}
"""The chapters of the table of contents. Pages of a folder follow the page of the folder."""
SOURCE_SUFFIXES = frozenset({".md", ".png", ".js", ".ts"})
TITLE_PATTERN = re.compile(r"^# (.+)$", re.M)
MARKS_PATTERN = re.compile(r"[`*_]")


class Chapter(NamedTuple):
    name: str
    title: str
    is_nested: bool = False

    @property
    def url(self) -> str:
        return f"{GUIDE_URL}/{self.name}"


@cache
def find_folder() -> Path:
    """Returns the folder of the documentation: inside the installed package, or of the repository."""
    packed = Path(__file__).parent / "pages"
    return packed if packed.is_dir() else Path(__file__).parents[4] / "docs"


@cache
def list_files() -> dict[str, Path]:
    """Returns the files by their name in URLs. Only these are ever served, so no name can leave the folder."""
    folder = find_folder()
    if not (folder / "quickstart.md").is_file():  # a folder of another package
        return {}
    files = sorted(file for file in folder.rglob("*") if file.suffix in SOURCE_SUFFIXES and file.is_file())
    return {name_in_url(PurePosixPath(file.relative_to(folder).as_posix())): file for file in files}


def name_in_url(path: PurePosixPath) -> str:
    """Returns `collect` for collect/README.md, `collect/nginx` for collect/nginx.md, and other paths as they are."""
    if path.name == "README.md":
        return str(path.parent)
    return str(path.with_suffix("")) if path.suffix == ".md" else str(path)


@cache
def list_chapters() -> dict[str, list[Chapter]]:
    """Returns the table of contents."""
    return {group: [each for name in names for each in _with_pages_below(name)] for group, names in CHAPTERS.items()}


def _with_pages_below(name: str) -> list[Chapter]:
    files = list_files()
    below = [each for each in files if each.startswith(f"{name}/") and files[each].suffix == ".md"]
    return [
        Chapter(each, read_title(each), is_nested=each != name)
        for each in (name, *below)
        if each in files
    ]  # fmt: skip


@cache
def read_title(name: str) -> str:
    match = TITLE_PATTERN.search(list_files()[name].read_text("utf-8"))
    return MARKS_PATTERN.sub("", match[1]) if match else name
