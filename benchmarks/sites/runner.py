"""Runs the jobs of a site through the real flow, and builds the site before and after each."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.agent.runner import ModelChoice, run_job
from benchmarks.agent.sources import CaseSources
from benchmarks.sites.builders import Build, Builder, NotRun, install_builder
from benchmarks.sites.changes import format_changes
from benchmarks.sites.site_jobs import PreparedJob, load_jobs
from benchmarks.sites.verdicts import Outcome, find_new_warnings, judge_job
from copydesk.jobs.checks import CheckReport, check


def run_sites(
    generators: Sequence[str], jobs: Sequence[str], build: bool, tell: Callable[[Outcome], None]
) -> list[Outcome]:
    """Runs the chosen jobs, or all, and returns what came of each. `build` is False to leave out the builders."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="copydesk-sites-") as name:
        for generator in generators:
            for outcome in _run_site(generator, jobs, build, Path(name)):
                tell(outcome)
                outcomes.append(outcome)
    return outcomes


def _run_site(generator: str, names: Sequence[str], build: bool, folder: Path) -> Iterator[Outcome]:
    builder: Builder | None = None
    problem = "builders are left out"
    if build:
        try:
            builder = install_builder(generator, folder)
        except NotRun as error:
            problem = str(error)
    builds: dict[str, Build] = {}
    for job in load_jobs(generator):
        if names and job.name not in names:
            continue
        outcome = run_site_job(job, builder, folder, builds)
        yield outcome if builder is not None else replace(outcome, reasons=outcome.reasons or (problem,))


def run_site_job(job: PreparedJob, builder: Builder | None, folder: Path, builds: dict[str, Build]) -> Outcome:
    """Runs one job. `builds` keeps the builds of sites as they are before a job, which most jobs share."""
    began = time.monotonic()
    after, report, status = run_edits(job, folder)
    seconds = time.monotonic() - began
    pair: tuple[Build, Build] | None = None
    if builder is not None:
        key = str(sorted(job.files.items()))
        if key not in builds:
            builds[key] = builder.build(job.files, folder / "build")
        pair = builds[key], builder.build(after, folder / "build")
    changes = format_changes(job.files, after)
    expected = job.expected_path.read_text("utf-8") if job.expected_path.exists() else ""
    verdict, reasons = judge_job(changes, expected, pair, report, status)
    changed = [path for path in job.files.keys() | after.keys() if job.files.get(path) != after.get(path)]
    return Outcome(
        job.generator,
        job.name,
        verdict,
        reasons,
        len(pair[0].warnings) if pair else None,
        len(pair[1].warnings) if pair else None,
        find_new_warnings(*pair) if pair else (),
        tuple(f"{each.path}:{each.line}: {each.message}" for each in report.introduced),
        len(report.not_judged),
        len(changed),
        round(seconds, 2),
    )


def run_edits(job: PreparedJob, folder: Path) -> tuple[dict[str, str], CheckReport, str]:
    """Runs the job through a service, and returns the files after it, the findings, and the job's status."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        prepared = CaseSources(Path(name)).prepare(job.case, Path(name) / "repository.git")
        mechanic = ModelChoice.parse("mechanic")
        done = run_job(job.case, prepared, mechanic, Path(name) / "data", threading.Event())
        workspace = prepared.workspace(done.branch)
        after = {path: workspace.read(path).decode() for path in workspace.paths()}
        return after, check(workspace), done.status
