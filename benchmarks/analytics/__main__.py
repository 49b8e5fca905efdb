"""python -m benchmarks.analytics [--large]"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.analytics.measure import Added, Asked, Folded, add, ask, fill

LEAST = {"year": 100.0, "month": 30.0, "day": 1.0}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analytics", description="Measures what counting visitors exactly costs."
    )
    parser.add_argument("--large", action="store_true", help="10 million views instead of 1 million")
    views = 10_000_000 if parser.parse_args().large else 1_000_000
    loops = [_loop()]
    with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
        tenth, whole = Path(folder, "tenth.duckdb"), Path(folder, "whole.duckdb")
        _say(f"{views // 10:,} views")
        fill(tenth, views // 10)
        before = ask(tenth)
        loops.append(_loop())
        _say(f"{views:,} views")
        filled, asked = fill(whole, views), ask(whole)
        loops.append(_loop())
        _say("more views")
        added = add(whole)
        loops.append(_loop())
    print(f"{views:,} views; ten million additions in a Python loop took {min(loops):.2f} to {max(loops):.2f} s.\n")
    print("| figure | aim | measured | met |\n|---|---:|---:|---|")
    for what, aim, measured, met in _rows(filled, added, asked, before):
        print(f"| {what} | {aim} | {measured} | {'yes' if met else '**no**'} |")


def _rows(
    filled: Folded, added: Added, asked: dict[str, Asked], before: dict[str, Asked]
) -> list[tuple[str, str, str, bool]]:
    rows = []
    for name, least in LEAST.items():
        ratio = asked[name].distinct / asked[name].index
        measured = f"{asked[name].index:.1f} ms against {asked[name].distinct:,.0f} ms: {ratio:.1f} ×"
        rows.append((f"visitors of a {name}, CPU beside count(distinct)", f"≥ {least:g} ×", measured, ratio >= least))
    growth = asked["year"].index / before["year"].index
    return [
        *rows,
        ("the same for ten times the traffic", "≤ 3 ×", f"{growth:.1f} ×", growth <= 3),
        _least("folding from nothing, views per CPU second", 150_000, filled.folding),
        _least("folding in order onto them", 100_000, added.in_order),
        _least("folding late days onto them", 30_000, added.late),
        _most("a fold of 100 views onto them, CPU", 120, added.few, "ms"),
        ("the filter of known events, once after a start, CPU", "", f"{added.filter:.1f} s", True),
        _most("memory while folding all of them", 300, filled.memory, "MB"),
        _most("disk per view, all that is kept", 40, filled.disk, "bytes"),
        ("logging, views per CPU second", "", f"{filled.logging:,.0f}", True),
    ]


def _least(what: str, aim: float, measured: float) -> tuple[str, str, str, bool]:
    return what, f"≥ {aim:,.0f}", f"{measured:,.0f}", measured >= aim


def _most(what: str, aim: float, measured: float, unit: str) -> tuple[str, str, str, bool]:
    return what, f"≤ {aim:g} {unit}", f"{measured:.0f} {unit}", measured <= aim


def _loop() -> float:
    began, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - began


def _say(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
