"""python -m benchmarks.jobs [--quick] [--json FILE] [--database-url postgresql://…]"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.jobs import creation, edits, engines, footprint, plain
from benchmarks.jobs.measure import this_machine
from benchmarks.jobs.report import render
from benchmarks.jobs.repository import make_repository
from benchmarks.jobs.results import Results, aims


@dataclass(frozen=True)
class Sizes:
    requests: dict[int, int]
    """Total requests, by the number of clients."""
    files: tuple[int, ...]
    alone: int
    together: int
    plain: int
    engine: int
    rounds: int
    starts: int
    idle_seconds: float


FULL = Sizes({1: 1000, 8: 8000}, (100, 2_000, 20_000), 8, 24, 3, 240, 3, 5, 10)
QUICK = Sizes({1: 200, 8: 800}, (100, 2_000), 4, 12, 2, 48, 1, 1, 4)


def measure(folder: Path, sizes: Sizes, database_url: str | None) -> Results:
    began = time.perf_counter()
    machine = this_machine(folder)
    _say("repositories")
    repositories = {files: make_repository(folder / f"{files}.git", files) for files in sizes.files}
    _say("start and idle")
    resting = footprint.measure(folder, sizes.starts, sizes.idle_seconds)
    _say("creation")
    created = creation.measure(folder, repositories[sizes.files[0]], sizes.requests)
    edited, by_hand = [], []
    for files, repository in repositories.items():
        _say(f"jobs and the plain way, {files:,} files")
        edited += edits.measure(folder, repository, files, sizes.alone, sizes.together)
        by_hand += plain.measure(folder, repository, files, sizes.plain)
    _say("engines")
    raced = engines.measure(folder, sizes.engine, sizes.rounds, database_url)
    return Results(machine, created, edited, by_hand, raced, resting, time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description="Measures what a job costs.")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, in about a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to this file")
    parser.add_argument("--database-url", metavar="URL", help="a PostgreSQL server, to run both engines on it too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
        _keep_bytecode(Path(folder, "bytecode"))
        results = measure(Path(folder), QUICK if options.quick else FULL, options.database_url)
    print(render(results))
    if options.json:
        found = {**asdict(results), "aims": [asdict(aim) for aim in aims(results)]}
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def _keep_bytecode(folder: Path) -> None:
    """Gives child processes a bytecode cache, as in any installation, even if this shell disables bytecode."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def _say(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
