"""All measurements of one run, compared with their targets."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.jobs.creation import Creation
from benchmarks.jobs.edits import Edits
from benchmarks.jobs.engines import Entrant, rivals
from benchmarks.jobs.footprint import Footprint
from benchmarks.jobs.measure import Machine, median
from benchmarks.jobs.plain import Plain


@dataclass(frozen=True)
class Results:
    machine: Machine
    creation: Sequence[Creation]
    edits: Sequence[Edits]
    plain: Sequence[Plain]
    engines: Sequence[Entrant]
    footprint: Footprint
    took: float


@dataclass(frozen=True)
class Aim:
    what: str
    aim: str
    measured: str
    met: bool


def aims(results: Results) -> list[Aim]:
    crowd = results.creation[-1]
    largest = max(edits.files for edits in results.edits)
    edit = next(edits for edits in results.edits if edits.files == largest)
    idle = results.footprint
    found = [
        _below(f"creation, p99 at {crowd.clients} clients", 25, crowd.p99, "ms"),
        _below(f"CPU per warm job, one page of {largest:,} files", 150, edit.warm_cpu, "ms"),
    ]
    for ours, theirs in rivals(results.engines):
        ratio = ours.speed / theirs.speed
        found.append(Aim(f"jobs per second beside DBOS, {ours.database}", "≥ 3 ×", f"{ratio:.1f} ×", ratio >= 3))
    return [
        *found,
        _below("idle service, CPU", 1, idle.idle_cpu * 100, "% of a core", digits=2),
        _below("idle service, memory", 150, idle.idle_memory, "MB"),
        _below("start, fresh data folder", 2, median(idle.start_fresh), "s", digits=2),
        _below("start, existing data folder", 2, median(idle.start_existing), "s", digits=2),
    ]


def _below(what: str, aim: float, measured: float, unit: str, digits: int = 0) -> Aim:
    return Aim(what, f"< {aim:g} {unit}", f"{measured:.{digits}f} {unit}", measured < aim)
