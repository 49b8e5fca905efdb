"""The completion scripts, in the shells that they are for."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from copydesk.cli.command_table import COMMANDS
from tests.support.programs import skip_missing

pytestmark = pytest.mark.deep
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
"""Has `copydesk`, which the scripts ask for completions."""

ASK_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_copydesk_completion copydesk
printf '%s\\n' "${COMPREPLY[@]}"
"""
ASK_ZSH = """
autoload -Uz compinit; compinit -u -D
_arguments() { print -r -- "$@"; }
_files() { print -r -- FILES; }
source "$1"; shift
words=("$@"); CURRENT=$#words
_copydesk_completion
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completion")
    files = {}
    for shell in ("bash", "zsh", "fish"):
        command = [sys.executable, "-m", "copydesk", "completion", shell]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        files[shell] = folder / f"copydesk.{shell}"
        files[shell].write_text(done.stdout, "utf-8")
    return files


def complete_in_bash(script: Path, *words: str) -> list[str]:
    command = ["bash", "--norc", "-c", ASK_BASH, "bash", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=ENVIRONMENT)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.deep
def test_bash_completes_commands_subcommands_and_options(scripts: dict[str, Path]) -> None:
    script = scripts["bash"]
    assert complete_in_bash(script, "copydesk", "") == list(COMMANDS)
    assert complete_in_bash(script, "copydesk", "proj") == ["project"]
    assert complete_in_bash(script, "copydesk", "--ver") == ["--version"]
    assert complete_in_bash(script, "copydesk", "project", "cr") == ["create"]
    assert complete_in_bash(script, "copydesk", "project", "create", "Docs", "--re") == ["--repo", "--ref"]
    assert complete_in_bash(script, "copydesk", "completion", "") == ["bash", "zsh", "fish"]


def test_bash_completes_files_for_the_value_of_an_option(scripts: dict[str, Path]) -> None:
    """No word of ours is offered, and `-o default` leaves the rest to bash."""
    assert complete_in_bash(scripts["bash"], "copydesk", "project", "create", "--repo", "") == []
    assert "complete -o default" in scripts["bash"].read_text("utf-8")


def test_bash_completes_after_a_real_tab(scripts: dict[str, Path], tmp_path: Path) -> None:
    """Types into an interactive bash on a terminal, as a person does."""
    program, installed = tmp_path / "copydesk", Path(sys.executable).with_name("copydesk")
    program.write_text(
        "#!/bin/sh\n"
        f'[ -n "$_COPYDESK_COMPLETE" ] && exec {shlex.quote(str(installed))}\n'
        "printf 'called with %s\\n' \"$*\"\n",
        "utf-8",
    )
    program.chmod(0o755)
    leader, follower = os.openpty()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb", "PS1": "$ "}
    command = ["bash", "--noprofile", "--norc", "-i"]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment) as bash:
        os.close(follower)
        os.write(leader, f"source {scripts['bash']}\ncopydesk projec\tcrea\t\nexit\n".encode())
        printed = b""
        while chunk := read_terminal(leader):
            printed += chunk
        bash.wait(timeout=60)
    os.close(leader)
    assert b"called with project create" in printed


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the shell has exited
        return b""


@pytest.mark.deep
def test_zsh_completes_commands_with_their_help(scripts: dict[str, Path], tmp_path: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        skip_missing("zsh", "Debian has it as the package zsh.")

    def complete(*words: str) -> list[str]:
        command = [zsh, "-f", "-c", ASK_ZSH, "zsh", str(scripts["zsh"]), *words]
        environment = {**ENVIRONMENT, "HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        return done.stdout.splitlines()

    assert f'"serve":"{COMMANDS["serve"].help}"' in complete("copydesk", "se")[0]
    assert any('"--repo":' in line for line in complete("copydesk", "project", "create", "--r"))
    assert complete("copydesk", "project", "create", "--repo", "") == ["FILES"]


def test_fish_completes_commands_with_their_help(scripts: dict[str, Path], tmp_path: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        skip_missing("fish", "Debian has it as the package fish.")
    ask = f"source {scripts['fish']}; complete -C'copydesk proj'; complete -C'copydesk project create --re'"
    environment = {**ENVIRONMENT, "HOME": str(tmp_path)}
    command = [fish, "--no-config", "-c", ask]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.stderr == ""
    words = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert words == ["project", "--ref", "--repo"]


@pytest.mark.deep
def test_unknown_shell_is_refused() -> None:
    command = [sys.executable, "-m", "copydesk", "completion", "tcsh"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "bash" in done.stderr
