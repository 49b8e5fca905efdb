"""The locked packages can be installed as they are, and what is only needed to build is not among them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.packages import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
LOCKED_PATTERN = re.compile(r"^([A-Za-z0-9][\w.-]*)(\S*)", re.M)
BUILD_TOOLS = {"hatchling", "hatch-fancy-pypi-readme", "editables", "pathspec", "trove-classifiers"}


def read_names(lock: Path) -> set[str]:
    return {match[1] for match in LOCKED_PATTERN.finditer(lock.read_text("utf-8"))}


def test_every_locked_package_has_one_version_and_its_hashes() -> None:
    """pip does not apply the hashes of `a[x]` to `a`, so names are locked without extras."""
    for lock in LOCKS:
        for entry in re.split(r"^(?=[A-Za-z0-9])", lock.read_text("utf-8"), flags=re.M)[1:]:
            assert re.match(r"[A-Za-z0-9][\w.-]*==\S+ (?:; .+ )?\\\n    --hash=sha256:[0-9a-f]{64}", entry), entry[:80]


def test_no_lock_names_a_host() -> None:
    for lock in LOCKS:
        assert "://" not in lock.read_text("utf-8"), lock.name


def test_build_tools_are_in_no_environment_that_runs_copydesk() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    required = {re.split(r"[<>=]", each)[0] for each in project["build-system"]["requires"]}
    assert required <= BUILD_TOOLS <= read_names(ROOT / "requirements/build.txt")
    for name in ("run", "models", "benchmarks"):
        assert read_names(ROOT / f"requirements/{name}.txt") & BUILD_TOOLS == set()
    assert read_names(ROOT / "requirements/server.txt") & (BUILD_TOOLS - {"pathspec"}) == set()


@pytest.mark.deep
@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_locked_packages_can_be_installed_into_an_empty_environment(lock: Path, tmp_path: Path) -> None:
    """Uses the network and the options of scripts/setup. pip verifies the hashes of what it fetches.

    Without `--no-deps`, pip wants the hashes of `a[x]`, which a dependency may name, beside those of `a`.
    """
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    options = ("--quiet", "--disable-pip-version-check", "--dry-run", "--no-deps", "--require-hashes", "--requirement")
    assert "--no-deps --require-hashes --requirement" in (ROOT / "scripts/setup").read_text("utf-8")
    done = subprocess.run([tmp_path / "venv/bin/python", "-m", "pip", "install", *options, lock], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.deep
def test_locked_packages_have_all_that_they_require() -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
