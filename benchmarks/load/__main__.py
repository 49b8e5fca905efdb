"""python -m benchmarks.load [--stores …] [--seconds N] [--times N …] [--soak MINUTES] [--views N]"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.analytics.collecting import measure_loop_seconds
from benchmarks.load import soak
from benchmarks.load.load_runs import (
    FinalCounts,
    LoadSummary,
    check_final_counts,
    count_expected_events,
    count_views,
    run_load,
    scale_rates,
)
from benchmarks.load.store_filler import add_folded_views
from benchmarks.load.stores import EMBEDDED, STORE_PAIRS, BenchmarkFleet, open_account, open_stores, start_fleet

CPU_CORES = {0, 1}
LOAD_FACTORS = (1.0, 2.0, 4.0, 6.0, 8.0)
WARM_UP_SECONDS = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load",
        description="Polls, creations, events and exports together, at rates that are stepped up while they are held.",
    )
    parser.add_argument("--stores", choices=STORE_PAIRS, default=EMBEDDED)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each step lasts")
    parser.add_argument(
        "--times", type=float, nargs="+", default=LOAD_FACTORS, help="the steps, as factors of the base"
    )
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="one steady load instead, and what it leaves")
    parser.add_argument("--views", type=int, default=0, help="how many are stored before it begins")
    options = parser.parse_args()
    os.sched_setaffinity(0, CPU_CORES & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    print(f"Load before the run: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores.")
    print(f"Ten million additions in a Python loop took {measure_loop_seconds():.2f} s of CPU.\n")
    with (
        tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder,
        open_stores(options.stores, Path(folder)) as on,
        open_account(on) as (owner, project),
    ):
        add_folded_views(owner.desk, project.id, options.views)
        with start_fleet(on, owner, project) as fleet:
            is_well = run_soak(fleet, options.soak, options.times[0]) if options.soak else run_steps(fleet, options)
    sys.exit(0 if is_well else 1)


def run_steps(fleet: BenchmarkFleet, options: argparse.Namespace) -> bool:
    """Runs the steps. Returns whether the base load was held without an error and the final counts were right."""
    accepted = count_views(fleet) + run_load(fleet, scale_rates(options.times[0]), WARM_UP_SECONDS, seed=1).accepted
    held_factors, errors = list[float](), 0
    for number, factor in enumerate(options.times):
        load_summary = run_load(fleet, scale_rates(factor), options.seconds, seed=2 + number)
        accepted, errors = accepted + load_summary.accepted, errors + load_summary.errors
        print(render_step(factor, load_summary), flush=True)
        if not load_summary.is_held:
            break
        held_factors.append(factor)
    end = check_final_counts(fleet, accepted)
    print(summarize_end(end))
    if held_factors:
        rates = scale_rates(held_factors[-1])
        rates_text = ", ".join(f"{rate:g} {kind}" for kind, rate in rates.items())
        print(f"Held: {rates_text} a second, which is {count_expected_events(rates):,.0f} events a second.")
    return bool(held_factors) and not errors and end.is_right


def run_soak(fleet: BenchmarkFleet, minutes: float, factor: float) -> bool:
    rates, seconds = scale_rates(factor), WARM_UP_SECONDS
    if fleet.stores.are_embedded and minutes >= soak.LONG_RUN_MINUTES:
        rates, seconds = soak.BURST_RATES, soak.BURST_MINUTES * 60
    accepted = count_views(fleet) + run_load(fleet, rates, seconds, seed=1).accepted
    load_summary = run_load(fleet, scale_rates(factor), minutes * 60, seed=2, every=soak.sampling_interval(minutes))
    end = check_final_counts(fleet, accepted + load_summary.accepted)
    trends = soak.compute_trends(load_summary.samples)
    print(render_step(factor, load_summary))
    print(soak.render_trends(trends, minutes))
    print(summarize_end(end))
    return all(trend.is_flat for trend in trends) and not load_summary.errors and end.is_right


def render_step(factor: float, loaded: LoadSummary) -> str:
    rates = scale_rates(factor)
    lines = [
        f"### × {factor:g}: {'held' if loaded.is_held else '**not held**'}\n",
        "| kind | asked/s | requests | p50 ms | p99 ms | longest ms | errors |\n|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, kind in loaded.kinds.items():
        lines.append(
            f"| {name} | {rates[name]:g} | {kind.sent:,} | {kind.p50:.0f} | {kind.p99:.0f} | {kind.longest:.0f} "
            f"| {len(kind.errors)} |"
        )
    cores = ", ".join(f"{name} {share:.2f}" for name, share in loaded.cores.items())
    lines.append(
        f"\n{loaded.events_per_second:,.0f} events a second over {loaded.seconds:.0f} s. Cores: {cores}; the "
        f"generator {loaded.generator:.2f}, others on the machine {loaded.others:.2f}. The generator's own lateness "
        f"was {loaded.late:.1f} ms (p99). A job waited {loaded.oldest:.1f} s for a slot at most, "
        f"{loaded.oldest_at_end:.1f} s at the end.\n"
    )
    lines += [f"{name}: {kind.errors[0]}" for name, kind in loaded.kinds.items() if kind.errors]
    return "\n".join(lines)


def summarize_end(end: FinalCounts) -> str:
    jobs = max(1, end.jobs)
    return (
        f"Accepted {end.accepted:,} events, counted {end.counted:,} through the export; {end.jobs:,} jobs created, "
        f"{end.finished:,} with a pull request: {'right' if end.is_right else '**wrong**'}. A job had "
        f"{end.told / jobs:.0f} events and {end.steps / jobs:.0f} steps."
    )


if __name__ == "__main__":
    main()
