"""Checks automation files of a checkout, without a server: what a continuous integration can run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from copydesk.automations.definition import AutomationDefinition
from copydesk.automations.files.parser import (
    BAD_FILE_NAME,
    FILE_NAME_PATTERN,
    MAX_FILE_BYTES,
    NOT_REGULAR,
    FileInvalid,
    FileProblem,
    parse_automation_file,
)


@dataclass(frozen=True)
class CheckedFile:
    """A file as it was checked. `definition` is None if there is a problem."""

    path: Path
    definition: AutomationDefinition | None
    problems: Sequence[FileProblem] = ()

    def describe(self) -> Iterator[str]:
        """Yields a line for people, or one for each problem in the form that editors and CI systems recognize."""
        for line, message in self.problems:
            yield f"{self.path}:{line or 1}: {message}"
        if self.definition is not None:
            state = "enabled" if self.definition.enabled else "not enabled"
            yield f"{self.path}: ok: {self.definition.name} ({self.definition.trigger.type}, {state})"

    def to_json(self) -> dict[str, Any]:
        values = self.definition.model_dump(mode="json", by_alias=True) if self.definition else None
        return {
            "file": str(self.path),
            "problems": [problem._asdict() for problem in self.problems],
            "automation": values,
        }


def check_files(paths: Sequence[Path]) -> list[CheckedFile]:
    """Checks each file by the rules of the server, except those on the project's repositories and models."""
    return [_check_file(path) for path in paths]


def _check_file(path: Path) -> CheckedFile:
    try:
        return CheckedFile(path, parse_automation_file(_read(path)))
    except FileInvalid as refusal:
        return CheckedFile(path, None, refusal.problems)


def _read(path: Path) -> bytes:
    if not FILE_NAME_PATTERN.fullmatch(path.name):
        raise FileInvalid(FileProblem(None, BAD_FILE_NAME))
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileInvalid(FileProblem(None, NOT_REGULAR))
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)  # enough to see that it is too large
    except OSError as error:
        raise FileInvalid(FileProblem(None, f"The file cannot be read: {error.strerror}.")) from None
