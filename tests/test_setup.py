"""scripts/setup creates .venv, repairs it in any state, and does not change a complete one."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from copydesk import __version__
from tests.support.packages import ROOT

NEEDED = (
    *("scripts", "requirements", "copydesk", "client", "docs"),
    *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"),
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in NEEDED:
        source, target = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return tmp_path


def run_setup(checkout: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["scripts/setup", *options], cwd=checkout, capture_output=True, text=True)


def is_usable(checkout: Path) -> bool:
    command = [str(checkout / ".venv/bin/copydesk"), "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == __version__


@pytest.mark.deep
def test_an_unknown_group_is_refused_and_help_lists_the_groups(checkout: Path) -> None:
    for group in ("everything", "build"):
        refused = run_setup(checkout, group)
        assert refused.returncode == 2
        assert group in refused.stderr
    shown = run_setup(checkout, "--help")
    assert shown.returncode == 0
    for lock in {*(ROOT / "requirements").glob("*.txt")} - {ROOT / "requirements/build.txt"}:
        assert f"scripts/setup {lock.stem} " in shown.stdout
    assert not (checkout / ".venv").exists()


@pytest.mark.drill
def test_a_venv_in_any_state_is_repaired(checkout: Path) -> None:
    """Uses the network, as scripts/setup does."""
    venv = checkout / ".venv"
    venv.mkdir()
    with subprocess.Popen(["scripts/setup"], cwd=checkout, stderr=subprocess.DEVNULL, start_new_session=True) as killed:
        deadline = time.monotonic() + 300
        while len(list(venv.glob("lib/*/site-packages/*.dist-info"))) < 10:
            assert killed.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(killed.pid, signal.SIGKILL)
    repaired = run_setup(checkout)
    assert repaired.returncode == 0, repaired.stderr
    assert "Replacing .venv, which is incomplete" in repaired.stderr
    assert is_usable(checkout)

    again = run_setup(checkout)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")

    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to(checkout / "an interpreter that was removed")
    assert run_setup(checkout).returncode == 0
    assert is_usable(checkout)
