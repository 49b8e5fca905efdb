"""Builds distributions of this repository, and environments to install them in without the network."""

import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def build(project: Path, target: str, folder: Path) -> Path:
    """Builds a wheel or an sdist with the project's own build backend, and returns the file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


class Environment:
    """A new virtual environment without Copydesk, with only the dependencies that are linked."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.bin = folder / "bin"
        (self._packages,) = folder.glob("lib/python*/site-packages")

    def link_dependencies(self, *names: str) -> None:
        """Links packages from the tests' environment, with all their declared requirements and nothing else."""
        for dependency in _with_dependencies(names):
            for entry in {Path(str(file)).parts[0] for file in dependency.files or ()} - {"..", "__pycache__"}:
                link = self._packages / entry
                if not link.exists():
                    link.symlink_to(Path(str(dependency.locate_file(entry))))

    def install(self, *files: Path, from_index: bool = False) -> "subprocess.CompletedProcess[str]":
        """Installs files with pip. Without an index, fails if a declared requirement is not linked."""
        command = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        options = [] if from_index else ["--no-index"]
        return subprocess.run([*command, *options, *map(str, files)], capture_output=True, text=True)

    def run(self, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command of the environment, outside this repository."""
        passed_on = {"PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.bin.parent), **environment}
        words = [str(self.bin / command[0]), *command[1:]]
        return subprocess.run(words, env=passed_on, cwd=self.bin.parent, capture_output=True, text=True)


def read_requirements(project: Path) -> list[str]:
    """Returns the names of the packages that a project's pyproject.toml declares, without extras."""
    declared = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))
    return [Requirement(line).name for line in declared["project"]["dependencies"]]


def _with_dependencies(names: tuple[str, ...]) -> Iterator[Distribution]:
    waiting, seen = [Requirement(name) for name in names], set[tuple[str, str]]()
    while waiting:
        requirement = waiting.pop()
        for extra in ("", *sorted(requirement.extras)):
            if (requirement.name, extra) in seen:
                continue
            seen.add((requirement.name, extra))
            try:
                package = distribution(requirement.name)
            except PackageNotFoundError:
                continue  # pip reports it during installation
            yield package
            for line in package.requires or ():
                needed = Requirement(line)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    waiting.append(needed)
