"""The Dockerfile's steps, executed in a scratch folder: the installed program starts, responds and stops."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from copydesk import __version__
from tests.deploy.image import ROOT, DockerfileStep, find_step, list_copied_files, parse_steps

HOME = "/opt/copydesk"


def execute_step(step: DockerfileStep, scratch: Path) -> None:
    """Executes a build step; the image's home is inside the scratch folder."""
    build = scratch / "build"
    if step.name == "COPY":
        for file in list_copied_files(step):
            target = build / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    elif step.name == "RUN":
        command = step.value.replace(HOME, str(scratch / "image")).replace("python -m", f"{sys.executable} -m")
        subprocess.run(["sh", "-ec", command], cwd=build, check=True)
    else:
        assert step.name in ("FROM", "WORKDIR"), f"this drill does not know {step.name}"


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("scratch")
    (scratch / "build").mkdir()
    for step in (step for step in parse_steps() if step.stage == 0):
        execute_step(step, scratch)
    return scratch


@pytest.mark.drill
@pytest.mark.parametrize("command", ["serve", "work"])
def test_image_contents_start_answer_and_drain(scratch: Path, tmp_path: Path, command: str) -> None:
    home, port = scratch / "image", free_port()
    assert not (home / "bin/pip").exists()
    environment = {
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COPYDESK_DATA": str(tmp_path / "data"),
        "COPYDESK_METRICS_PORT": port,
    }
    entry = find_step("ENTRYPOINT").command[2:]  # without tini, which Debian provides
    told = subprocess.run([*entry, "--version"], env=environment, capture_output=True, text=True, check=True)
    assert __version__ in told.stdout

    before = sorted(home.rglob("*"))
    options = ["--port", port] if command == "serve" else []
    running = subprocess.Popen([*entry, command, *options], env=environment, cwd=tmp_path)
    try:
        probe = [
            word.replace(HOME, str(ROOT / "deploy")).replace("8080", port) for word in find_step("HEALTHCHECK").command
        ]
        until = time.monotonic() + 60
        while subprocess.run(probe, env=environment, capture_output=True).returncode != 0:
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 0
    finally:
        running.kill()
        running.wait()
    assert sorted(home.rglob("*")) == before, "something was written beside the data, which a read-only root forbids"
