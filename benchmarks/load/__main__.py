"""python -m benchmarks.load [--stores …] [--seconds N] [--times N …] [--soak MINUTES] [--views N]"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.analytics.collecting import loop
from benchmarks.load import soak
from benchmarks.load.filling import keep_views
from benchmarks.load.running import Loaded, Reckoned, counted, expected_events, load, reckon, times
from benchmarks.load.stores import EMBEDDED, PAIRS, Fleet, account, running, stores

CORES = {0, 1}
FACTORS = (1.0, 2.0, 4.0, 6.0, 8.0)
WARM_UP = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load",
        description="Polls, creations, events and exports together, at rates that are stepped up while they are held.",
    )
    parser.add_argument("--stores", choices=PAIRS, default=EMBEDDED)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each step lasts")
    parser.add_argument("--times", type=float, nargs="+", default=FACTORS, help="the steps, as factors of the base")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="one steady load instead, and what it leaves")
    parser.add_argument("--views", type=int, default=0, help="how many are stored before it begins")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, CORES & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    print(f"Load before the run: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores.")
    print(f"Ten million additions in a Python loop took {loop():.2f} s of CPU.\n")
    with (
        tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder,
        stores(chosen.stores, Path(folder)) as on,
        account(on) as (owner, project),
    ):
        keep_views(owner.desk, project.id, chosen.views)
        with running(on, owner, project) as fleet:
            is_well = soaked(fleet, chosen.soak, chosen.times[0]) if chosen.soak else stepped(fleet, chosen)
    sys.exit(0 if is_well else 1)


def stepped(fleet: Fleet, chosen: argparse.Namespace) -> bool:
    """Runs the steps. Returns whether the base load was held without an error and the final counts were right."""
    accepted = counted(fleet) + load(fleet, times(chosen.times[0]), WARM_UP, seed=1).accepted
    held, errors = list[float](), 0
    for number, factor in enumerate(chosen.times):
        found = load(fleet, times(factor), chosen.seconds, seed=2 + number)
        accepted, errors = accepted + found.accepted, errors + found.errors
        print(rendered(factor, found), flush=True)
        if not found.is_held:
            break
        held.append(factor)
    end = reckon(fleet, accepted)
    print(summary(end))
    if held:
        rates = times(held[-1])
        told = ", ".join(f"{rate:g} {kind}" for kind, rate in rates.items())
        print(f"Held: {told} a second, which is {expected_events(rates):,.0f} events a second.")
    return bool(held) and not errors and end.is_right


def soaked(fleet: Fleet, minutes: float, factor: float) -> bool:
    rates, seconds = times(factor), WARM_UP
    if fleet.stores.are_embedded and minutes >= soak.LONG:
        rates, seconds = soak.BURST, soak.BURST_MINUTES * 60
    accepted = counted(fleet) + load(fleet, rates, seconds, seed=1).accepted
    found = load(fleet, times(factor), minutes * 60, seed=2, every=soak.interval(minutes))
    end = reckon(fleet, accepted + found.accepted)
    trends = soak.trends(found.samples)
    print(rendered(factor, found))
    print(soak.rendered(trends, minutes))
    print(summary(end))
    return all(trend.is_flat for trend in trends) and not found.errors and end.is_right


def rendered(factor: float, found: Loaded) -> str:
    rates = times(factor)
    lines = [
        f"### × {factor:g}: {'held' if found.is_held else '**not held**'}\n",
        "| kind | asked/s | requests | p50 ms | p99 ms | longest ms | errors |\n|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, kind in found.kinds.items():
        lines.append(
            f"| {name} | {rates[name]:g} | {kind.sent:,} | {kind.p50:.0f} | {kind.p99:.0f} | {kind.longest:.0f} "
            f"| {len(kind.errors)} |"
        )
    cores = ", ".join(f"{name} {share:.2f}" for name, share in found.cores.items())
    lines.append(
        f"\n{found.events_per_second:,.0f} events a second over {found.seconds:.0f} s. Cores: {cores}; the "
        f"generator {found.generator:.2f}, others on the machine {found.others:.2f}. The generator's own lateness was "
        f"{found.late:.1f} ms (p99). A job waited {found.oldest:.1f} s for a slot at most, {found.oldest_at_end:.1f} s "
        f"at the end.\n"
    )
    lines += [f"{name}: {kind.errors[0]}" for name, kind in found.kinds.items() if kind.errors]
    return "\n".join(lines)


def summary(end: Reckoned) -> str:
    jobs = max(1, end.jobs)
    return (
        f"Accepted {end.accepted:,} events, counted {end.counted:,} through the export; {end.jobs:,} jobs created, "
        f"{end.finished:,} with a pull request: {'right' if end.is_right else '**wrong**'}. A job had "
        f"{end.told / jobs:.0f} events and {end.steps / jobs:.0f} steps."
    )


if __name__ == "__main__":
    main()
