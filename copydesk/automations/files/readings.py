"""Reads the automation files of a commit, each on its own: a file that is not valid does not stop the others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from pygit2.enums import FileMode

from copydesk.automations.definition import FILES_FOLDER, AutomationDefinition
from copydesk.automations.files.parser import (
    BAD_FILE_NAME,
    FILE_NAME_PATTERN,
    NOT_REGULAR,
    FileInvalid,
    FileProblem,
    clean_message,
    parse_automation_file,
    refuse_large_file,
)
from copydesk.core.text.truncation import truncate
from copydesk.jobs.workspace.git_folders import TreeEntry, list_folder
from copydesk.jobs.workspace.git_tree import Tree

FILE_SUFFIX = ".md"
MAX_FILES = 50
MAX_SHOWN_NAME_CHARS = 120

FindProblems = Callable[[AutomationDefinition], Sequence[FileProblem]]
"""Returns what is wrong with a valid definition in this project, such as a model that it cannot use."""


@dataclass(frozen=True)
class FileReading:
    """A file as it was read. `definition` is None if there is a problem."""

    path: str
    definition: AutomationDefinition | None
    problems: Sequence[FileProblem] = ()

    def with_problem(self, message: str) -> "FileReading":
        return replace(self, definition=None, problems=(FileProblem(None, message),))

    def to_stored(self, automation_id: str | None) -> dict[str, Any]:
        problems = [problem._asdict() for problem in self.problems]
        return {"path": self.path, "automation_id": automation_id, "problems": problems}

    def describe_problem(self) -> str:
        """Returns the problems as one text, with their lines."""
        return " ".join(f"Line {line}: {text}" if line else text for line, text in self.problems)


def read_files(tree: Tree, find_problems: FindProblems, max_automations: int) -> list[FileReading]:
    """Returns the readings of the automation files of a commit, by name.

    At most `max_automations` of them have a definition. Files after the first MAX_FILES are not read.
    """
    folder = tree.find_entry(FILES_FOLDER)
    if folder is None or folder.mode != FileMode.TREE:
        return []
    listing = list_folder(tree.repository, folder.oid, tree.limits)
    names = sorted(name for name in listing if name.endswith(FILE_SUFFIX))
    readings = [_read_file(tree, name, listing[name], find_problems) for name in names[:MAX_FILES]]
    return _limit_definitions(readings, max_automations) + _refuse_further_files(names)


def _read_file(tree: Tree, name: str, entry: TreeEntry, find_problems: FindProblems) -> FileReading:
    path = f"{FILES_FOLDER}/{name}"
    try:
        if not FILE_NAME_PATTERN.fullmatch(name):
            path = truncate(clean_message(path), MAX_SHOWN_NAME_CHARS)
            raise FileInvalid(FileProblem(None, BAD_FILE_NAME))
        if not entry.is_file:
            raise FileInvalid(FileProblem(None, NOT_REGULAR))
        refuse_large_file(tree.size(entry))
        definition = parse_automation_file(tree.read(entry, path))
        if problems := find_problems(definition):
            raise FileInvalid(*problems)
        return FileReading(path, definition)
    except FileInvalid as refusal:
        return FileReading(path, None, refusal.problems)


def _limit_definitions(readings: Sequence[FileReading], max_automations: int) -> list[FileReading]:
    numbers = count(1)
    message = (
        "The project has too many automations, so this file is not used. Delete another file or automation, or merge "
        "two into one."
    )
    return [
        reading.with_problem(message) if reading.definition is not None and next(numbers) > max_automations else reading
        for reading in readings
    ]


def _refuse_further_files(names: Sequence[str]) -> list[FileReading]:
    """Returns one reading with a problem for all files after the first MAX_FILES."""
    if len(names) <= MAX_FILES:
        return []
    message = (
        f"The folder has {len(names):,} files. Only the first {MAX_FILES} by name are read; {len(names) - MAX_FILES:,} "
        "are not. Delete some."
    )
    return [FileReading(FILES_FOLDER, None, (FileProblem(None, message),))]
