"""All measurements of one run, compared with their targets."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.jobs.creation import CreationMeasurement
from benchmarks.jobs.edits import EditMeasurement
from benchmarks.jobs.engines import EngineRun, pair_fastest
from benchmarks.jobs.footprint import Footprint
from benchmarks.jobs.measure import Machine, median
from benchmarks.jobs.plain_git import PlainGitMeasurement


@dataclass(frozen=True)
class BenchmarkResults:
    machine: Machine
    creation: Sequence[CreationMeasurement]
    edits: Sequence[EditMeasurement]
    plain: Sequence[PlainGitMeasurement]
    engines: Sequence[EngineRun]
    footprint: Footprint
    took: float


@dataclass(frozen=True)
class Target:
    what: str
    aim: str
    measured: str
    met: bool


def list_targets(results: BenchmarkResults) -> list[Target]:
    crowd = results.creation[-1]
    largest = max(edits.files for edits in results.edits)
    edit = next(edits for edits in results.edits if edits.files == largest)
    idle = results.footprint
    targets = [
        _target_below(f"creation, p99 at {crowd.clients} clients", 25, crowd.p99, "ms"),
        _target_below(f"CPU per warm job, one page of {largest:,} files", 150, edit.warm_cpu, "ms"),
    ]
    for ours, theirs in pair_fastest(results.engines):
        ratio = ours.speed / theirs.speed
        targets.append(Target(f"jobs per second beside DBOS, {ours.database}", "≥ 3 ×", f"{ratio:.1f} ×", ratio >= 3))
    return [
        *targets,
        _target_below("idle service, CPU", 1, idle.idle_cpu * 100, "% of a core", digits=2),
        _target_below("idle service, memory", 150, idle.idle_memory, "MB"),
        _target_below("start, fresh data folder", 2, median(idle.start_fresh), "s", digits=2),
        _target_below("start, existing data folder", 2, median(idle.start_existing), "s", digits=2),
    ]


def _target_below(label: str, aim: float, measured: float, unit: str, digits: int = 0) -> Target:
    return Target(label, f"< {aim:g} {unit}", f"{measured:.{digits}f} {unit}", measured < aim)
