"""The systemd unit: accepted by systemd's own checker, hardened, and in agreement with the service."""

import os
import re
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path

import pytest

from copydesk.core.settings import Settings, env_variable
from copydesk.jobs.execution.attempt import STOP_GRACE_SECONDS
from copydesk.jobs.execution.worker import STOP_TIMEOUT_SECONDS
from copydesk.web.server import GRACE_SECONDS
from tests.support.programs import skip_missing

FOLDER = Path(__file__).parents[2] / "deploy/systemd"
UNIT = FOLDER / "copydesk.service"
MAX_EXPOSURE = 30
"""Tenths of the exposure that `systemd-analyze security` computes, from 0 to 10; below 5 counts as OK."""


class UnitParser(RawConfigParser):
    """Reads a unit. Keys keep their case; a key that occurs again replaces the one before."""

    def __init__(self) -> None:
        super().__init__(strict=False, delimiters="=", comment_prefixes=("#", ";"), interpolation=None)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.fixture(scope="module")
def unit() -> dict[str, str]:
    parser = UnitParser()
    parser.read(UNIT, "utf-8")
    return dict(parser["Service"])


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("systemd-analyze")
    if program is None:
        skip_missing("systemd", "Debian has it as the package systemd.")
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning", "LC_ALL": "C"}
    return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, timeout=120)


def install(folder: Path, *drop_ins: str) -> Path:
    """Copies the unit into a folder, with a program that exists, and with these drop-ins."""
    service = folder / UNIT.name
    service.write_text(UNIT.read_text("utf-8").replace("/opt/copydesk/bin/copydesk", "/bin/true"), "utf-8")
    for name in drop_ins:
        (folder / f"{UNIT.name}.d").mkdir(exist_ok=True)
        shutil.copy(FOLDER / name, folder / f"{UNIT.name}.d" / name)
    return service


@pytest.mark.parametrize("drop_ins", [(), ("bubblewrap.conf",)])
def test_systemd_accepts_the_unit(tmp_path: Path, drop_ins: tuple[str, ...]) -> None:
    done = analyze("verify", "--man=no", str(install(tmp_path, *drop_ins)))
    complaints = [line for line in done.stderr.splitlines() if "copydesk" in line or "bubblewrap" in line]
    assert complaints == []


def test_unit_exposes_little(tmp_path: Path) -> None:
    done = analyze("security", "--offline=yes", f"--threshold={MAX_EXPOSURE}", "--no-pager", str(install(tmp_path)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_unit_gives_the_service_time_to_stop(unit: dict[str, str]) -> None:
    assert int(unit["TimeoutStopSec"]) > GRACE_SECONDS + STOP_TIMEOUT_SECONDS + STOP_GRACE_SECONDS


def test_unit_writes_only_to_its_data_folder(unit: dict[str, str]) -> None:
    assert unit["ProtectSystem"] == "strict"
    assert unit["WorkingDirectory"] == f"/var/lib/{unit['StateDirectory']}"
    assert f"Environment={env_variable('data')}={unit['WorkingDirectory']}" in UNIT.read_text("utf-8")
    assert "ReadWritePaths" not in unit
    assert unit["StateDirectoryMode"] == "0700"


def test_unit_names_only_settings_that_exist() -> None:
    known = {env_variable(name) for name in Settings.model_fields}
    assert set(re.findall(r"COPYDESK_[A-Z_]+", UNIT.read_text("utf-8"))) <= known
