"""python -m benchmarks.checks [--quick] [--history REPOSITORY | --recall REPOSITORY] [--root FOLDER] [--count N]"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.checks.broken_references import measure_recall
from benchmarks.checks.history import check_history
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
    parser.add_argument("--history", type=Path, help="a git folder: check its last documentation commits")
    parser.add_argument("--recall", type=Path, help="a git folder: break one reference of each kind at a time")
    parser.add_argument("--root", default="", help="the documentation folder of the repository")
    parser.add_argument("--count", type=int, default=100, help="how many commits, or references of each kind")
    options = parser.parse_args()
    if options.history:
        _print_history(options.history, options.root, options.count)
    elif options.recall:
        _print_recall(options.recall, options.root, options.count)
    else:
        _print_cost((2_000,) if options.quick else (2_000, 20_000))


def _print_history(repository: Path, root: str, count: int) -> None:
    """Prints every finding, so that a person can read it, and how often each reason for not judging occurred."""
    findings = names_to_check = 0
    reasons: Counter[str] = Counter()
    for commit in check_history(repository, root, count):
        reasons.update({each.reason for each in commit.report.not_judged})
        for each in commit.report.introduced:
            findings += 1
            print(f"{commit.commit[:9]} {commit.message[:50]} | {each.rule} {each.path}:{each.line} {each.message}")
        for each in commit.report.please_check:
            names_to_check += 1
            print(f"{commit.commit[:9]} {commit.message[:50]} | please check {each.path}:{each.line} {each.message}")
    print(f"{findings} findings and {names_to_check} names to check in {count} commits.")
    print("Commits with a reason for not judging:")
    for reason, commits in reasons.most_common():
        print(f"  {commits} {reason}")


def _print_recall(repository: Path, root: str, count: int) -> None:
    print("| Kind | Broken | Reported | Not judged | Missed |")
    print("|---|---:|---:|---:|---:|")
    for kind, recall in measure_recall(repository, root, count).items():
        print(f"| {kind} | {recall.broken} | {recall.reported} | {recall.not_judged} | {len(recall.missed)} |")
        for missed in recall.missed:
            print(f"missed: {missed}", file=sys.stderr)


def _print_cost(sizes: tuple[int, ...]) -> None:
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
