"""Selects files for search and replace: by shell patterns, and without translations unless they are asked for."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BeforeValidator, Field

from copydesk.jobs.agent.tools.tool import ToolArguments
from copydesk.jobs.pages.languages import Translations, find_translations
from copydesk.jobs.workspace.context_tree import ReadableFiles
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable

MAX_PATTERN_CHARS = 1000


def _to_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Globs = Annotated[
    list[Annotated[str, Field(max_length=MAX_PATTERN_CHARS)]], BeforeValidator(_to_list), Field(max_length=50)
]


class PathArguments(ToolArguments):
    files: Globs = Field([])
    """Shell patterns for whole paths, such as docs/*.mdx; all files when empty."""
    exclude: Globs = Field([])
    """Shell patterns for paths to leave out."""
    translations: bool = False
    """Whether to include the folders of translations."""


class PathFilter:
    def __init__(self, files: ReadableFiles, arguments: PathArguments) -> None:
        self._files = arguments.files or ["*"]
        self._exclude = arguments.exclude
        self.translations = Translations() if arguments.translations else find_file_translations(files)
        self._names_translation = any(self._may_name_translation(pattern) for pattern in arguments.files)
        self.left_out = 0
        """The number of translated files that matched the patterns and were left out."""

    def matches(self, path: str) -> bool:
        """Returns whether the patterns select a path, which may be a translation."""
        return _matches_any(path, self._files) and not _matches_any(path, self._exclude)

    def selects(self, path: str) -> bool:
        """Returns whether the patterns select a path that is no translation, or one that is asked for."""
        if not self.matches(path):
            return False
        if not self._names_translation and self.translations.contains(path):
            self.left_out += 1
            return False
        return True

    def describe_left_out(self) -> str:
        """Returns a sentence about the translations that were left out; empty if there are none."""
        if not self.left_out:
            return ""
        names = ", ".join(self.translations.names)
        return f"Not searched: {self.left_out} files of translations ({names}). Set translations to include them."

    def _may_name_translation(self, pattern: str) -> bool:
        """Returns whether a pattern begins with the folder of a translation, which is then asked for."""
        return self.translations.contains(pattern)


def find_file_translations(files: ReadableFiles) -> Translations:
    return find_translations(files.paths(), lambda path: _read_text(files, path))


def _matches_any(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def _read_text(files: ReadableFiles, path: str) -> str:
    try:
        return DecodedText.decode(files.read(path)).normalized_body if files.is_readable(path) else ""
    except (KeyError, NotEditable):
        return ""
