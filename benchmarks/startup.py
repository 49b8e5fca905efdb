"""python -m benchmarks.startup [--runs N]: prints the CPU seconds that commands take from start to end."""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PLAIN_PYTHON = (sys.executable, "-c", "pass")
COPYDESK = (sys.executable, "-m", "copydesk")
COMMANDS = (
    "--version",
    "--help",
    "project --help",
    "project list",
    "key list",
    "person list",
    "secret list",
    "pull list",
    "job list",
    "analytics visitors --help",
    "serve --help",
    "backup --help",
    "doctor",
)


def measure_cpu_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Returns the user and system time of one run.

    A command that fails counts too: there is no server to connect to.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_commands(runs: int, environment: Mapping[str, str]) -> Iterator[tuple[str, list[float]]]:
    """Yields each command with its times. Ignores the first run, which compiles modules and fills the disk cache."""
    commands = {"python -c pass": PLAIN_PYTHON} | {f"copydesk {name}": (*COPYDESK, *name.split()) for name in COMMANDS}
    for name, command in commands.items():
        measure_cpu_seconds(command, environment)
        yield name, [measure_cpu_seconds(command, environment) for _ in range(runs)]


def make_environment(folder: Path) -> dict[str, str]:
    """Returns the environment of a data folder with one project, and of a server that does not run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COPYDESK_", "PYTHON"))}
    environment |= {
        "PYTHONPATH": str(Path(__file__).parent.parent),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "COPYDESK_DATA": str(folder / "data"),
        "COPYDESK_URL": "http://127.0.0.1:9",
        "COPYDESK_API_KEY": "unused",
    }
    create = (*COPYDESK, "project", "create", "Docs", "--repo", str(folder), "--no-check", "--ref", "main")
    subprocess.run(create, env=environment, capture_output=True, check=True)
    listed = subprocess.run((*COPYDESK, "project", "list"), env=environment, capture_output=True, text=True, check=True)
    return environment | {"COPYDESK_PROJECT": listed.stdout.split("\t")[0]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description="Measures how commands start.")
    parser.add_argument("--runs", type=int, default=7, help="how often each command is run")
    runs = parser.parse_args().runs
    print("| Command | CPU, median | CPU, least |")
    print("|---|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
        for name, seconds in measure_commands(runs, make_environment(Path(folder))):
            print(f"| `{name}` | {statistics.median(seconds):.3f} s | {min(seconds):.3f} s |", flush=True)


if __name__ == "__main__":
    main()
