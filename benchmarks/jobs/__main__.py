"""python -m benchmarks.jobs [--quick] [--json FILE] [--database-url postgresql://…]"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.jobs import creation, edits, engines, footprint, plain_git
from benchmarks.jobs.measure import describe_machine
from benchmarks.jobs.report import render_report
from benchmarks.jobs.repository import make_repository
from benchmarks.jobs.results import BenchmarkResults, list_targets


@dataclass(frozen=True)
class BenchmarkSizes:
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


FULL_SIZES = BenchmarkSizes({1: 1000, 8: 8000}, (100, 2_000, 20_000), 8, 24, 3, 240, 3, 5, 10)
QUICK_SIZES = BenchmarkSizes({1: 200, 8: 800}, (100, 2_000), 4, 12, 2, 48, 1, 1, 4)


def measure_all(folder: Path, sizes: BenchmarkSizes, database_url: str | None) -> BenchmarkResults:
    began = time.perf_counter()
    machine = describe_machine(folder)
    _print_progress("repositories")
    repositories = {files: make_repository(folder / f"{files}.git", files) for files in sizes.files}
    _print_progress("start and idle")
    resting = footprint.measure_footprint(folder, sizes.starts, sizes.idle_seconds)
    _print_progress("creation")
    created = creation.measure_creation(folder, repositories[sizes.files[0]], sizes.requests)
    edited, by_hand = [], []
    for files, repository in repositories.items():
        _print_progress(f"jobs and the plain way, {files:,} files")
        edited += edits.measure_edits(folder, repository, files, sizes.alone, sizes.together)
        by_hand += plain_git.measure_plain_git(folder, repository, files, sizes.plain)
    _print_progress("engines")
    raced = engines.measure_engines(folder, sizes.engine, sizes.rounds, database_url)
    return BenchmarkResults(machine, created, edited, by_hand, raced, resting, time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description="Measures what a job costs.")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, in about a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to this file")
    parser.add_argument("--database-url", metavar="URL", help="a PostgreSQL server, to run both engines on it too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
        _keep_bytecode(Path(folder, "bytecode"))
        results = measure_all(Path(folder), QUICK_SIZES if options.quick else FULL_SIZES, options.database_url)
    print(render_report(results))
    if options.json:
        report_data = {**asdict(results), "aims": [asdict(aim) for aim in list_targets(results)]}
        options.json.write_text(json.dumps(report_data, indent=2) + "\n")


def _keep_bytecode(folder: Path) -> None:
    """Gives child processes a bytecode cache, as in any installation, even if this shell disables bytecode."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def _print_progress(message: str) -> None:
    print(f"… {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
