"""python -m benchmarks.analytics [--large | --huge]"""

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.analytics.measure import (
    AddMeasurement,
    FillMeasurement,
    QueryMeasurement,
    measure_add,
    measure_fill,
    measure_queries,
)

MIN_SPEEDUP = {"year": 100.0, "month": 30.0, "day": 1.0}
MIN_IN_ORDER = 70_000 if platform.machine() in ("aarch64", "arm64") else 100_000


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analytics", description="Measures what counting visitors exactly costs."
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--large", action="store_true", help="10 million views instead of 1 million")
    sizes.add_argument("--huge", action="store_true", help="100 million views: an hour or more, 10 GB of disk")
    chosen = parser.parse_args()
    views = 100_000_000 if chosen.huge else 10_000_000 if chosen.large else 1_000_000
    loops = [_measure_loop_seconds()]
    with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
        tenth, full = Path(folder, "tenth.duckdb"), Path(folder, "whole.duckdb")
        _print_progress(f"{views // 10:,} views")
        measure_fill(tenth, views // 10)
        before = measure_queries(tenth)
        loops.append(_measure_loop_seconds())
        _print_progress(f"{views:,} views")
        filled, queries = measure_fill(full, views), measure_queries(full)
        loops.append(_measure_loop_seconds())
        _print_progress("more views")
        added = measure_add(full)
        loops.append(_measure_loop_seconds())
    print(f"{views:,} views; ten million additions in a Python loop took {min(loops):.2f} to {max(loops):.2f} s.\n")
    print("| figure | aim | measured | met |\n|---|---:|---:|---|")
    for label, aim, measured, is_met in _build_rows(filled, added, queries, before):
        print(f"| {label} | {aim} | {measured} | {'yes' if is_met else '**no**'} |")


def _build_rows(
    filled: FillMeasurement,
    added: AddMeasurement,
    queries: dict[str, QueryMeasurement],
    before: dict[str, QueryMeasurement],
) -> list[tuple[str, str, str, bool]]:
    rows = []
    for name, least in MIN_SPEEDUP.items():
        ratio = queries[name].distinct / queries[name].index
        measured = f"{queries[name].index:.1f} ms against {queries[name].distinct:,.0f} ms: {ratio:.1f} ×"
        rows.append((f"visitors of a {name}, CPU beside count(distinct)", f"≥ {least:g} ×", measured, ratio >= least))
    growth = queries["year"].index / before["year"].index
    return [
        *rows,
        ("the same for ten times the traffic", "≤ 3 ×", f"{growth:.1f} ×", growth <= 3),
        _at_least("folding from nothing, views per CPU second", 150_000, filled.folding),
        _at_least("folding in order onto them", MIN_IN_ORDER, added.in_order),
        _at_least("folding late days onto them", 30_000, added.late),
        _at_most("a fold of 100 views onto them, CPU", 15, added.few, "ms"),
        _at_most("memory while folding all of them", 400, filled.memory, "MB"),
        _at_most("disk per view, all that is kept", 60, filled.disk, "bytes"),
        ("logging, views per CPU second", "", f"{filled.logging:,.0f}", True),
    ]


def _at_least(label: str, aim: float, measured: float) -> tuple[str, str, str, bool]:
    return label, f"≥ {aim:,.0f}", f"{measured:,.0f}", measured >= aim


def _at_most(label: str, aim: float, measured: float, unit: str) -> tuple[str, str, str, bool]:
    return label, f"≤ {aim:g} {unit}", f"{measured:.0f} {unit}", measured <= aim


def _measure_loop_seconds() -> float:
    began, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - began


def _print_progress(message: str) -> None:
    print(f"… {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
