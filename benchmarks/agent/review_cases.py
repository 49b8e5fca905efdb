"""Review cases: a change with a known fault or none, played by a script, and what its reviewer must be told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from benchmarks.agent.cases import InvalidCase
from benchmarks.agent.scripted import ScriptedTurn

REVIEW_CASES = Path(__file__).parent / "reviews"
MODULES = {f"src/acme/module_{number:02}.py": f"def run_{number:02}():\n    pass\n" for number in range(24)}
"""Source code, so that the repository counts as one that knows the names of its product."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ExpectedReview(_Data):
    outcome: Literal["ready", "draft", "refused"]
    """Whether the pull request opens as ready or as a draft, or whether the change is not published at all."""
    risk: dict[str, str] = {}
    """By kind of risk: a part of its text, which the queue, the pages and the pull request must show unfolded."""


class ReviewCase(_Data):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,60}$")]
    prompt: str
    data: str = ""
    """Text that Copydesk collected for the job, such as what readers wrote."""
    files: dict[str, str]
    has_modules: bool = False
    """Whether the repository has source code beside the documentation."""
    context: dict[str, str] | None = None
    """The files of a context repository called `code`."""
    earlier: tuple[ScriptedTurn, ...] = ()
    """The replies of a job before this one, whose pull request is still open."""
    replies: tuple[ScriptedTurn, ...]
    objections: tuple[dict[str, Any], ...] | None = None
    """What a second model objects to; None if the project has none."""
    expected: ExpectedReview

    @property
    def repository_files(self) -> dict[str, bytes]:
        files = {**(MODULES if self.has_modules else {}), **self.files}
        return {path: text.encode() for path, text in files.items()}


def load_review_cases(folder: Path = REVIEW_CASES, only: Sequence[str] = ()) -> list[ReviewCase]:
    """Loads all cases of a folder; `only` selects by the name of a case or of its file."""
    cases = [(path.stem, case) for path in sorted(folder.glob("*.yaml")) for case in _read_cases(path)]
    for name in only:
        if not any(name in (stem, case.name) for stem, case in cases):
            raise InvalidCase(f"No review case has the name {name}, and no file of cases.")
    return [case for stem, case in cases if not only or {stem, case.name} & set(only)]


def _read_cases(path: Path) -> list[ReviewCase]:
    try:
        return TypeAdapter(list[ReviewCase]).validate_python(yaml.safe_load(path.read_bytes()))
    except yaml.YAMLError as error:
        raise InvalidCase(f"{path} is not YAML: {' '.join(str(error).split())}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidCase(f"{path}, {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
