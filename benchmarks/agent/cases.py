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

BUILT_IN_CASES = Path(__file__).parent / "cases"


class InvalidCase(UserFacingError):
    """A case that cannot be run as written; the message names the problem."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FileContent(_Data):
    """A file whose encoding, byte-order mark or line endings differ from those of TOML text (UTF-8, plain newlines)."""

    text: str
    endings: Literal["lf", "crlf"] = "lf"
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    bom: bool = False

    @model_validator(mode="after")
    def _check_encodable(self) -> "FileContent":
        try:
            self.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{self.encoding} has no {self.text[error.start]!r}") from None
        return self

    def encode(self) -> bytes:
        text = self.text.replace("\n", "\r\n") if self.endings == "crlf" else self.text
        return (BOM if self.bom else b"") + text.encode(self.encoding)


class FileEdit(_Data):
    """Replacements in a file of the base; all its other bytes stay unchanged."""

    replace: tuple[tuple[str, str], ...] = ()
    """Pairs of old and new text. Every occurrence is replaced; at least one must exist."""
    moved_from: str | None = None
    """The file's path in the base."""


Reference = dict[str, str | FileContent | FileEdit | Literal[False]]
"""By path: the complete text, the edits, or false for a deleted file. Empty: nothing needs to change."""


class EvaluationCase(_Data):
    name: Annotated[str, Field(pattern=r"^\w[\w.-]{0,79}$")]
    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_CHARS)]
    repository: str | None = None
    """A path (absolute, or relative to the file of cases), or an address that git can clone."""
    base: str | None = None
    """The commit that the job starts from."""
    files: dict[str, str | FileContent] | None = None
    """The files themselves, in place of repository and base."""
    reference: str | Reference
    """The commit that a person made, or the files that it changes."""
    root: str = ""
    """The folder of the documentation; changes of the reference outside it do not count."""
    tags: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_complete(self) -> "EvaluationCase":
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


def load_cases(path: Path, only: Sequence[str] = ()) -> list[EvaluationCase]:
    """Loads the cases of a file or of all .toml files in a folder; `only` selects by name or tag."""
    cases = [case for file in _list_case_files(path) for case in _read_cases(file)]
    for name in {case.name for case in cases if sum(other.name == case.name for other in cases) > 1}:
        raise InvalidCase(f"Two cases are called {name}; give each a name of its own.")
    for name in only:
        if not any(_has_name_or_tag(case, name) for case in cases):
            names = ", ".join(case.name for case in cases)
            raise InvalidCase(f"No case has the name or tag {name}; there are {names}.")
    return [case for case in cases if not only or any(_has_name_or_tag(case, name) for name in only)]


def _list_case_files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.glob("*.toml"))
        if not files:
            raise InvalidCase(f"{path} is a folder without a .toml file in it.")
        return files
    if not path.is_file():
        raise InvalidCase(f"There is no file {path}.")
    return [path]


def _read_cases(file: Path) -> Iterator[EvaluationCase]:
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except UnicodeDecodeError:
        raise InvalidCase(f"{file} is no TOML: it is not UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidCase(f"{file} is no TOML: {error}.") from None
    items = data.get("case")
    if not isinstance(items, list) or not items or set(data) != {"case"}:
        raise InvalidCase(f"{file} has no cases; each begins with a line [[case]], and nothing else is at the top.")
    for number, values in enumerate(items, 1):
        yield _parse_case(file, number, values)


def _parse_case(file: Path, number: int, values: Any) -> EvaluationCase:
    name = values.get("name", f"number {number}") if isinstance(values, dict) else f"number {number}"
    try:
        case = EvaluationCase.model_validate(values)
    except ValidationError as error:
        faults = sorted({_format_validation_error(each) for each in error.errors()})
        raise InvalidCase(f"{file}, case {name}: {'; '.join(faults)}.") from None
    if case.repository is None or "://" in case.repository:
        return case
    place = file.parent / Path(case.repository).expanduser()
    return case.model_copy(update={"repository": str(place.resolve())})


def _format_validation_error(error: ErrorDetails) -> str:
    place = ".".join(map(str, error["loc"][:3]))
    message = error["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{place}: {message}" if place else message


def _has_name_or_tag(case: EvaluationCase, name: str) -> bool:
    return name == case.name or name in case.tags
