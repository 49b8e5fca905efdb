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
class Step:
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
def steps() -> tuple[Step, ...]:
    stage, found = -1, []
    with DOCKERFILE.open("rb") as file:
        for read in DockerfileParser(fileobj=file).structure:
            stage += read["instruction"] == "FROM"
            if read["instruction"] != "COMMENT":
                found.append(Step(stage, read["instruction"], read["value"]))
    return tuple(found)


def only(name: str) -> Step:
    """Finds the single step with this name in the last stage."""
    (found,) = (step for step in steps() if step.name == name and step.stage == steps()[-1].stage)
    return found


def is_sent(path: str) -> bool:
    """Applies .dockerignore: of all lines that match a path or a parent folder, the last one counts."""
    parts = path.split("/")
    places = ["/".join(parts[: length + 1]) for length in range(len(parts))]
    sent = True
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and any(_matches(place, pattern) for place in places):
            sent = line.startswith("!")
    return sent


def _matches(place: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(place.rpartition("/")[2], pattern.removeprefix("**/"))
    return place.count("/") == pattern.count("/") and fnmatchcase(place, pattern)


def copied(step: Step) -> Iterator[Path]:
    """Lists the files of this repository that a COPY includes."""
    for source in step.words[:-1]:
        place = ROOT / source
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if not file.is_dir() and is_sent(file.relative_to(ROOT).as_posix()):
                yield file
