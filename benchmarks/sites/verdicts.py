"""Compares two builds and the findings of the checks, and gives the verdict on one job."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.sites.builders import Build
from copydesk.jobs.checks.findings import CheckReport, Finding

PASSED, FAILED, NOT_RUN = "passed", "FAILED", "not run"
PATH_PATTERN = re.compile(r"[\w./-]+")


@dataclass(frozen=True)
class Outcome:
    """The result of one job on one site."""

    generator: str
    job: str
    verdict: str
    reasons: tuple[str, ...] = ()
    """Why it failed, or why it was not run."""
    warnings_before: int | None = None
    warnings_after: int | None = None
    new_warnings: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    not_judged: int = 0
    files_changed: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_new_warnings(before: Build, after: Build) -> tuple[str, ...]:
    return tuple(warning for warning in after.warnings if warning not in before.warnings)


def find_unreported(new_warnings: Iterable[str], findings: Sequence[Finding]) -> list[str]:
    """Returns the new warnings of a builder that no finding explains.

    A finding explains a warning if the warning names its file, or the target that the finding quotes."""
    return [warning for warning in new_warnings if not any(_explains(finding, warning) for finding in findings)]


def _explains(finding: Finding, warning: str) -> bool:
    names = set(PATH_PATTERN.findall(warning))
    if any(name and (finding.path == name or finding.path.endswith(f"/{name.lstrip('./')}")) for name in names):
        return True
    quoted = re.findall(r"`([^`]+)`", finding.message)
    return any(target.partition("#")[0] and target.partition("#")[0] in warning for target in quoted)


def judge_job(
    changes: str, expected: str, builds: tuple[Build, Build] | None, report: CheckReport, status: str
) -> tuple[str, tuple[str, ...]]:
    """Returns the verdict and the reasons. Without builds, a job can fail but not pass."""
    reasons = []
    if status != "completed":
        reasons.append(f"the job ended {status}")
    if changes != expected:
        reasons.append("the edits are not the expected ones")
    if builds is not None:
        new_warnings = find_new_warnings(*builds)
        reasons += [f"not reported: {warning}" for warning in find_unreported(new_warnings, report.introduced)]
        if not builds[1].succeeded and builds[0].succeeded and not report.introduced:
            reasons.append("the build fails, and the checks report nothing")
    if reasons:
        return FAILED, tuple(reasons)
    return (NOT_RUN, ()) if builds is None else (PASSED, ())
