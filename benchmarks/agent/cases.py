"""Evaluation cases: a base repository, a prompt, and a person's reference change. Read from TOML and validated."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from copydesk.core.errors import UserFacingError
from copydesk.jobs.job import MAX_PROMPT_CHARS
from copydesk.jobs.workspace.path_rules import PathRefused, validate_path
from copydesk.jobs.workspace.text_edits import BOM

BUILT_IN = Path(__file__).parent / "cases"


class CaseRefused(UserFacingError):
    """A case that cannot be run as written; the message names the problem."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Content(_Data):
    """A file whose encoding, byte-order mark or line endings differ from those of TOML text (UTF-8, plain newlines)."""

    text: str
    endings: Literal["lf", "crlf"] = "lf"
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    bom: bool = False

    @model_validator(mode="after")
    def _can_be_written(self) -> "Content":
        try:
            self.encoded()
        except UnicodeEncodeError as error:
            raise ValueError(f"{self.encoding} has no {self.text[error.start]!r}") from None
        return self

    def encoded(self) -> bytes:
        text = self.text.replace("\n", "\r\n") if self.endings == "crlf" else self.text
        return (BOM if self.bom else b"") + text.encode(self.encoding)


class Edited(_Data):
    """Replacements in a file of the base; all its other bytes stay unchanged."""

    replace: tuple[tuple[str, str], ...] = ()
    """Pairs of old and new text. Every occurrence is replaced; at least one must exist."""
    moved_from: str | None = None
    """The file's path in the base."""


Reference = dict[str, str | Content | Edited | Literal[False]]
"""By path: the complete text, the edits, or false for a deleted file. Empty: nothing needs to change."""


class Case(_Data):
    name: Annotated[str, Field(pattern=r"^\w[\w.-]{0,79}$")]
    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_CHARS)]
    repository: str | None = None
    """A path (absolute, or relative to the file of cases), or an address that git can clone."""
    base: str | None = None
    """The commit that the job starts from."""
    files: dict[str, str | Content] | None = None
    """The files themselves, in place of repository and base."""
    reference: str | Reference
    """The commit that a person made, or the files that it changes."""
    root: str = ""
    """The folder of the documentation; changes of the reference outside it do not count."""
    tags: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> "Case":
        if (self.repository is None) == (self.files is None):
            raise ValueError("a case has either a repository or files")
        if (self.repository is None) != (self.base is None):
            raise ValueError("a base is given with a repository, and only then")
        if self.files is not None and isinstance(self.reference, str):
            raise ValueError("a case made of files has its reference as files too")
        for path in (*(self.files or {}), *(self.reference if isinstance(self.reference, dict) else {})):
            try:
                validate_path(path)
            except PathRefused as refusal:
                raise ValueError(f"{path}: {refusal}") from None
        return self


def load(path: Path, only: Sequence[str] = ()) -> list[Case]:
    """Loads the cases of a file or of all .toml files in a folder; `only` selects by name or tag."""
    found = [case for file in _files(path) for case in _read(file)]
    for name in {case.name for case in found if sum(other.name == case.name for other in found) > 1}:
        raise CaseRefused(f"Two cases are called {name}; give each a name of its own.")
    for name in only:
        if not any(_is_called(case, name) for case in found):
            known = ", ".join(case.name for case in found)
            raise CaseRefused(f"No case has the name or tag {name}; there are {known}.")
    return [case for case in found if not only or any(_is_called(case, name) for name in only)]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.glob("*.toml"))
        if not files:
            raise CaseRefused(f"{path} is a folder without a .toml file in it.")
        return files
    if not path.is_file():
        raise CaseRefused(f"There is no file {path}.")
    return [path]


def _read(file: Path) -> Iterator[Case]:
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except UnicodeDecodeError:
        raise CaseRefused(f"{file} is no TOML: it is not UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise CaseRefused(f"{file} is no TOML: {error}.") from None
    written = data.get("case")
    if not isinstance(written, list) or not written or set(data) != {"case"}:
        raise CaseRefused(f"{file} has no cases; each begins with a line [[case]], and nothing else is at the top.")
    for number, values in enumerate(written, 1):
        yield _case(file, number, values)


def _case(file: Path, number: int, values: Any) -> Case:
    name = values.get("name", f"number {number}") if isinstance(values, dict) else f"number {number}"
    try:
        case = Case.model_validate(values)
    except ValidationError as error:
        faults = sorted({_fault(each) for each in error.errors()})
        raise CaseRefused(f"{file}, case {name}: {'; '.join(faults)}.") from None
    if case.repository is None or "://" in case.repository:
        return case
    place = file.parent / Path(case.repository).expanduser()
    return case.model_copy(update={"repository": str(place.resolve())})


def _fault(error: ErrorDetails) -> str:
    place = ".".join(map(str, error["loc"][:3]))
    told = error["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{place}: {told}" if place else told


def _is_called(case: Case, name: str) -> bool:
    return name == case.name or name in case.tags
