"""The Dockerfile: linted, its sources exist, and its steps are checked as far as possible without Docker."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from copydesk import __version__
from copydesk.cli.commands.setup.doctor import MIN_GIT_VERSION
from tests.deploy.chart import CHART
from tests.deploy.image import DOCKERFILE, ROOT, find_step, is_in_build_context, list_copied_files, parse_steps
from tests.support.programs import find_program
from tests.support.service import serve

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SECRET = re.compile(r"(?i)password|secret|token|api_key")


@pytest.mark.deep
def test_dockerfile_lint_passes() -> None:
    hadolint = find_program("hadolint")
    assert hadolint is not None
    done = subprocess.run(
        [hadolint, "--no-color", "--failure-threshold", "style", str(DOCKERFILE)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.deep
def test_copied_files_exist_and_are_in_the_build_context() -> None:
    sources = [step for step in parse_steps() if step.name == "COPY" and not step.options]
    assert len(sources) == 6
    for step in sources:
        for source in step.words[:-1]:
            assert (ROOT / source).exists(), source
        assert list(list_copied_files(step)), step.value


@pytest.mark.parametrize(
    "path",
    [".git/config", ".venv/bin/python", ".env", "deploy/.env", "copydesk-data/secret.key", "requirements/dev.txt",
     "copydesk/__pycache__/desk.cpython-313.pyc", "tests/conftest.py", "deploy/compose.yaml", "README.md.orig"],
)  # fmt: skip
def test_build_context_excludes_everything_else(path: str) -> None:
    assert not is_in_build_context(path)
    assert is_in_build_context("copydesk/core/db/migrations/versions/x.py")


def test_image_runs_as_a_fixed_non_root_user() -> None:
    assert find_step("USER").value == "10001:10001"
    (making,) = (step.value for step in parse_steps() if step.name == "RUN" and "useradd" in step.value)
    assert "--uid 10001" in making
    assert "--gid 10001" in making
    assert "runAsUser: 10001" in (CHART / "templates/_pod.tpl").read_text("utf-8")


def test_signals_reach_the_service() -> None:
    assert find_step("ENTRYPOINT").command == ["tini", "--", "copydesk"]
    assert find_step("CMD").command == ["serve", "--host", "0.0.0.0"]


def test_no_secret_is_built_in() -> None:
    given = [step.value for step in parse_steps() if step.name in ("ARG", "ENV", "LABEL")]
    assert [value for value in given if SECRET.search(value)] == []


def test_versions_in_dockerfile_and_project_agree() -> None:
    arguments = dict(step.value.split("=") for step in parse_steps() if step.name == "ARG")
    assert arguments["VERSION"] == __version__
    assert arguments["PYTHON_VERSION"] == "3.13"
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert MIN_GIT_VERSION <= (2, 47), "Debian trixie's git"
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))
    assert compose["x-copydesk"]["image"] == f"copydesk:${{COPYDESK_VERSION:-{__version__}}}"


def test_locked_packages_cover_every_extra() -> None:
    locked = re.findall(r"^([\w.-]+)[^\n]*==", (ROOT / "requirements/server.txt").read_text("utf-8"), re.M)
    wanted = PROJECT["project"]["dependencies"] + [
        line for lines in PROJECT["project"]["optional-dependencies"].values() for line in lines
    ]
    names = {re.split(r"[\[<>=;~! ]", line)[0] for line in wanted}
    assert names - set(locked) == set()


@pytest.mark.deep
def test_health_check_fails_without_an_answer(tmp_path: Path) -> None:
    words = find_step("HEALTHCHECK").command
    assert words[:4] == ["python", "-IS", "/opt/copydesk/probe.py", "127.0.0.1"]

    def probe(port: str, path: str) -> int:
        return subprocess.run(
            [sys.executable, "-IS", str(ROOT / "deploy/probe.py"), "127.0.0.1", port, path]
        ).returncode

    with serve(tmp_path, repository=tmp_path, with_worker=False) as service:
        port = service.url.rpartition(":")[2]
        assert probe(port, words[5]) == 0
        assert probe(port, "/readyz") == 0
        assert probe(port, "/nowhere") == 1
    assert probe(port, words[5]) == 1
