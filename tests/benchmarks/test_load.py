"""The load harness: its arithmetic against examples computed by hand, and short runs against a real service."""

import asyncio
import math
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.load import generator, simulation, soak
from benchmarks.load.generator import EXPECTED_STATUS_BY_KIND, LoadOrder, LoadResult, schedule_requests
from benchmarks.load.growth import Cost, CostGrowth
from benchmarks.load.load_runs import BASE_RATES, check_final_counts, run_load, scale_rates, summarize
from benchmarks.load.samples import ProcessUsage, Sample
from benchmarks.load.simulation import ArrivalRate, Durations, FoldCost, Workers
from benchmarks.load.stores import STORE_PAIRS, open_account, open_stores, start_fleet
from copydesk.analytics.stores.fold_scheduler import FoldTiming


def make_sample(at: float, memory: float = 100.0, cpu: float = 0.0) -> Sample:
    return Sample(at, {"serve": ProcessUsage(cpu, memory, memory, 20, 10)}, cpu, 0, 0, 0, 0, 0)


def test_request_schedule_is_deterministic_and_keeps_its_rates() -> None:
    found = list(schedule_requests({"poll": 100, "batch": 10, "export": 0}, 20, seed=3))
    assert found == sorted(found) == list(schedule_requests({"poll": 100, "batch": 10, "export": 0}, 20, seed=3))
    assert {kind: sum(1 for _, each in found if each == kind) for kind in ("poll", "batch", "export")} == {
        "poll": pytest.approx(2000, rel=0.1), "batch": pytest.approx(200, rel=0.25), "export": 0,
    }  # fmt: skip


def test_every_sent_event_has_a_unique_id() -> None:
    made = generator.RequestFactory(LoadOrder([], "proj", "site", "key", "job", {}, 0))
    bodies = [made.make("batch") for _ in range(30)]
    ids = [part[:24] for body in bodies for part in body.split(b'"eventId": "')[1:]]
    assert len(ids) == len(set(ids)) == 30 * generator.BATCH_EVENTS
    for body in bodies:
        head, _, sent = body.partition(b"\r\n\r\n")
        assert int(head.rpartition(b" ")[2]) == len(sent)


async def _load_server(stall: float, status: int, rate: float = 100, seconds: float = 1.0) -> LoadResult:
    """Loads a server that stalls for a while in the middle."""
    began = time.monotonic()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):
            while (await reader.read(65_536)) != b"":
                passed = time.monotonic() - began
                if 0.4 < passed < 0.4 + stall:
                    await asyncio.sleep(0.4 + stall - passed)
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}" % status)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    order = LoadOrder([server.sockets[0].getsockname()[1]], "proj", "site", "key", "job", {"poll": rate}, seconds)
    taken = await generator.LoadRun(order)()
    server.close()
    return taken


def test_latency_is_measured_from_the_scheduled_time() -> None:
    took = asyncio.run(_load_server(0.4, 200)).milliseconds["poll"]
    assert len(took) == len(list(schedule_requests({"poll": 100}, 1, seed=1)))
    waited = [each for each in took if each > 100]
    assert len(waited) > 20, "those that were due in the first three quarters of the stall"
    assert max(waited) > 300


def test_unexpected_status_is_an_error() -> None:
    taken = asyncio.run(_load_server(0, 503, rate=20, seconds=0.5))
    assert len(taken.errors["poll"]) == len(taken.milliseconds["poll"]) > 0
    assert taken.errors["poll"][0] == "503: {}"


def test_run_passes_without_errors_and_within_latency_targets() -> None:
    quick = {kind: [float(n) for n in range(1, 101)] for kind in EXPECTED_STATUS_BY_KIND}
    samples = [make_sample(0, cpu=1), make_sample(10, cpu=6)]
    taken = LoadResult(
        quick, {kind: [] for kind in EXPECTED_STATUS_BY_KIND}, [0.1], accepted=500, cpu_seconds=1, seconds=10
    )
    found = summarize(taken, samples)
    assert found.is_held
    assert (found.kinds["poll"].p50, found.kinds["poll"].p99, found.kinds["poll"].longest) == (50, 99, 100)
    assert (found.cores, found.generator, found.events_per_second) == ({"serve": 0.5}, 0.1, 50)
    assert not summarize(LoadResult({**quick, "poll": [900.0]}, taken.errors, [0.1], 0, 1, 10), samples).is_held
    assert not summarize(LoadResult(quick, {**taken.errors, "poll": ["503"]}, [0.1], 0, 1, 10), samples).is_held


@pytest.mark.parametrize(
    ("per_minute", "minutes", "is_flat"), [(0, 30, True), (0.01, 30, True), (1, 30, False), (0.8, 30, False)]
)
def test_steadily_growing_memory_is_not_flat(per_minute: float, minutes: int, is_flat: bool) -> None:
    chance = random.Random(1)
    samples = [make_sample(n * 6, 100 + per_minute * n / 10 + chance.uniform(-2, 2)) for n in range(minutes * 10)]
    memory = soak.compute_trends(samples)[0]
    assert memory.is_flat is is_flat
    assert memory.rise == pytest.approx(per_minute * 60, abs=3)


@pytest.mark.parametrize("leak", [0.0, 1.0])
def test_checkpointing_log_neither_hides_nor_looks_like_a_leak(leak: float) -> None:
    samples = [make_sample(n * 6, 300 + 20 * (n % 130 / 130) + leak * n / 10) for n in range(300)]
    assert soak.compute_trends(samples)[0].is_flat is not bool(leak)


def test_growth_during_the_warm_up_is_ignored() -> None:
    samples = [make_sample(n * 6, 200 - 100 * math.exp(-n / 20)) for n in range(300)]
    assert all(trend.is_flat for trend in soak.compute_trends(samples))


def test_cost_is_level_if_tenfold_data_adds_less_than_half() -> None:
    assert CostGrowth("poll", [Cost(1, 2.0), Cost(1, 2.9), Cost(1, 3.9)]).is_level
    assert not CostGrowth("poll", [Cost(1, 2.0), Cost(1, 2.0), Cost(1, 4.0)]).is_level
    assert CostGrowth("poll", [Cost(1, 1.0, noise=0.2), Cost(1, 1.8, noise=0.2)]).is_level, "it may be chance"
    assert not CostGrowth("poll", [Cost(1, 1.0), Cost(1, 1.8)]).is_level


def test_simulation_matches_queueing_theory_for_one_slot() -> None:
    found = simulation.simulate_jobs(ArrivalRate(0.7, 1), Durations(1, 0), Workers(1, 1), 40_000)
    assert sum(found.seconds) / len(found.seconds) == pytest.approx(0.7 / (2 * 0.3), rel=0.1)


def test_jobs_of_a_dead_worker_resume_after_the_lease() -> None:
    asked = ArrivalRate(1, 1), Durations(30, 0.5), 3600.0
    found = simulation.simulate_jobs(*asked[:2], Workers(4, 20, lost_at=1800), asked[2])
    whole = simulation.simulate_jobs(*asked[:2], Workers(4, 20), asked[2])
    assert len(found.seconds) == len(whole.seconds)
    assert found.resumed
    assert min(found.resumed) == pytest.approx(simulation.LEASE_SECONDS)


def test_simulated_shard_backlog_is_the_views_since_the_last_fold() -> None:
    calm = simulation.simulate_folds(
        ArrivalRate(1000, 1), FoldCost(fixed=1, each=0), FoldTiming(pause_factor=30, max_pause_seconds=60)
    )
    assert calm.backlog == pytest.approx(1000 * 31)
    assert calm.lag == pytest.approx(32)
    assert calm.share == pytest.approx(1 / 31, rel=0.01)
    away = simulation.simulate_folds(ArrivalRate(1000, 1), FoldCost(fixed=1, each=0, away=(3600, 4200)))
    assert away.backlog == pytest.approx(1000 * 600, rel=0.06)


def test_hourly_rates_average_to_the_daily_mean() -> None:
    assert simulation.count_arrivals(ArrivalRate(100, 3), 0, 86_400) == pytest.approx(8_640_000)
    assert simulation.count_arrivals(ArrivalRate(100, 3), 21_600 - 1, 21_600 + 1) == pytest.approx(600)


@pytest.mark.drill
@pytest.mark.parametrize("pair", STORE_PAIRS)
def test_load_run_has_no_failures_and_counts_every_accepted_event(tmp_path: Path, pair: str) -> None:
    with (
        open_stores(pair, tmp_path) as on,
        open_account(on) as (owner, project),
        start_fleet(on, owner, project) as fleet,
    ):
        found = run_load(fleet, scale_rates(0.5), 2, seed=1)
        end = check_final_counts(fleet, found.accepted)
    assert not found.errors, found.kinds
    assert end.is_right, end
    assert end.accepted > BASE_RATES["event"] / 2
    assert set(found.cores) == set(fleet.processes)
