"""python -m benchmarks.checks [--quick]"""

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

from benchmarks.checks.measure import measure_checks
from benchmarks.checks.repository import make_repository


def _measure_loop_seconds() -> float:
    """Returns the CPU seconds of ten million additions in a Python loop: how fast the machine is at the moment."""
    began, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checks", description="Measures what the checks cost.")
    parser.add_argument("--quick", action="store_true", help="2,000 pages alone")
    sizes = (2_000,) if parser.parse_args().quick else (2_000, 20_000)
    print("| Pages | First check | Five pages changed | The next commit | Nothing kept | Memory | Introduced | Loop |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for pages in sizes:
        with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
            repository = make_repository(Path(folder, "docs.git"), pages)
            with multiprocessing.get_context("spawn").Pool(1) as process:  # a separate process, to measure its memory
                figures = process.apply(measure_checks, (repository, pages))
        print(
            f"| {figures.pages:,} | {figures.first:.2f} s | {figures.again:.3f} s | {figures.next_commit:.3f} s "
            f"| {figures.plain:.2f} s | {figures.memory:.0f} MB | {figures.introduced} "
            f"| {_measure_loop_seconds():.2f} s |"
        )


if __name__ == "__main__":
    main()
