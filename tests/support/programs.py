"""Optional programs: a test that needs a missing one is skipped with the program's name, and fails in CI."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NoReturn

import playwright
import pytest

from tests.support.missing_programs import find_excuse

SKIPPED = re.compile(r"Not installed: ([\w-]+)")
TYPESCRIPT = "const answer: number = 42; console.log(answer);\n"
NPM_INSTALL_SECONDS = 600
NPM_RETRY_MILLISECONDS = 3000
CURL = Path(__file__).with_name("curl.py")


def skip_missing(program: str, hint: str) -> NoReturn:
    """Skips the running test because a program is missing.

    In CI it fails, unless this machine cannot have the program.
    """
    excuse = find_excuse(program)
    if os.environ.get("CI") and excuse is None:
        pytest.fail(f"{program} is not installed, and CI must have it. {hint}", pytrace=False)
    pytest.skip(f"Not installed: {program}. {excuse or hint}")


def find_program(name: str) -> str | None:
    """Returns the path of a program of this Python environment or of the machine."""
    return shutil.which(name, path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))


def require_node() -> str:
    """Returns a Node that reads TypeScript: the one in Playwright's wheel, else the machine's."""
    node = find_node()
    if node is None:
        skip_missing("node", "Playwright's own Node needs the package libatomic1; Node 22.18 or newer will do as well.")
    return node


@cache
def find_node() -> str | None:
    candidates = (str(Path(playwright.__file__).parent / "driver/node"), shutil.which("node"))
    return next((node for node in candidates if node and _reads_typescript(node)), None)


def install_npm_packages(folder: Path, *packages: str) -> Path:
    """Installs packages from npm's registry into a folder, without their scripts. Skips the test if it cannot."""
    npm = shutil.which("npm") or skip_missing("npm", "It comes with Node.")
    (folder / "package.json").write_text('{"private": true}', "utf-8")
    options = ("--no-audit", "--no-fund", "--ignore-scripts", f"--fetch-retry-maxtimeout={NPM_RETRY_MILLISECONDS}")
    command = [npm, "install", *options, f"--fetch-retry-mintimeout={NPM_RETRY_MILLISECONDS}", *packages]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=NPM_INSTALL_SECONDS)
    if result.returncode:
        skip_missing("npm-packages", f"Their registry must be reachable: {result.stderr.strip()[-300:]}")
    return folder


def curl_command() -> list[str]:
    """Returns the words that start curl, or its replacement if the machine has none."""
    curl = shutil.which("curl")
    return [curl] if curl else [sys.executable, "-IS", str(CURL)]


def add_curl(search_path: str, folder: Path) -> str:
    """Returns the search path; if it has no curl, writes a replacement to the folder and appends that."""
    if shutil.which("curl", path=search_path):
        return search_path
    script = folder / "curl"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(curl_command())} "$@"\n', "utf-8")
    script.chmod(0o755)
    return f"{search_path}{os.pathsep}{folder}"


def summarize_skips(reasons: Iterable[str]) -> str | None:
    """Returns one line that counts the skipped tests by missing program, or None if there are none."""
    counts = Counter(match[1] for reason in reasons if (match := SKIPPED.search(reason)))
    if not counts:
        return None
    return "Skipped because not installed: " + ", ".join(f"{name} ({counts[name]})" for name in sorted(counts))


def _reads_typescript(node: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "probe.ts")
        script.write_text(TYPESCRIPT, "utf-8")
        try:
            result = subprocess.run([node, str(script)], capture_output=True, text=True)
        except OSError:
            return False
    return result.stdout == "42\n"
