"""The Dockerfile as a list of steps, and the files of this repository in its build context."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile"


@dataclass(frozen=True)
class DockerfileStep:
    stage: int
    name: str
    value: str

    @property
    def options(self) -> list[str]:
        return [word for word in self.value.split() if word.startswith("--")]

    @property
    def words(self) -> list[str]:
        """Returns the sources and the target of a copy."""
        return [word for word in self.value.split() if not word.startswith("--")]

    @property
    def command(self) -> list[str]:
        """Returns the exec form. The shell form, which blocks signals, is not JSON and fails here."""
        command: list[str] = json.loads(self.value[self.value.index("[") :])
        return command


@cache
def parse_steps() -> tuple[DockerfileStep, ...]:
    stage, parsed_steps = -1, []
    with DOCKERFILE.open("rb") as file:
        for read in DockerfileParser(fileobj=file).structure:
            stage += read["instruction"] == "FROM"
            if read["instruction"] != "COMMENT":
                parsed_steps.append(DockerfileStep(stage, read["instruction"], read["value"]))
    return tuple(parsed_steps)


def find_step(name: str) -> DockerfileStep:
    """Finds the single step with this name in the last stage."""
    (matching_step,) = (step for step in parse_steps() if step.name == name and step.stage == parse_steps()[-1].stage)
    return matching_step


def is_in_build_context(path: str) -> bool:
    """Applies .dockerignore: of all lines that match a path or a parent folder, the last one counts."""
    parts = path.split("/")
    places = ["/".join(parts[: length + 1]) for length in range(len(parts))]
    is_included = True
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and any(_matches_pattern(place, pattern) for place in places):
            is_included = line.startswith("!")
    return is_included


def _matches_pattern(place: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(place.rpartition("/")[2], pattern.removeprefix("**/"))
    return place.count("/") == pattern.count("/") and fnmatchcase(place, pattern)


def list_copied_files(step: DockerfileStep) -> Iterator[Path]:
    """Lists the files of this repository that a COPY includes."""
    for source in step.words[:-1]:
        place = ROOT / source
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if not file.is_dir() and is_in_build_context(file.relative_to(ROOT).as_posix()):
                yield file
