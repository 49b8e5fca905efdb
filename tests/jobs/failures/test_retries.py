"""An unavailable forge delays a job, which reports it; the job is not lost and keeps its time limit."""

from typing import Any

import pytest

from copydesk.desk import Desk
from copydesk.jobs.job import COMPLETED, FAILED, Reason
from tests.jobs.bench import start_bench, wait_until
from tests.jobs.publish.forges.stage import create_project, read_file_on_branch
from tests.support.drills import mark_drills
from tests.support.scripted_model import edit, finish

SCRIPT = (edit("docs/index.md", "colour", "color"), finish("Spell color so"))
PARTS = {"fetch": "upload-pack", "push": "receive-pack", "api": "/api/"}
OPENING = r"POST .*/(pulls|merge_requests)$"
TEN_MINUTES = 15
"""Attempts, with pauses of 1, 2, 4 … up to 60 s between them."""


@pytest.mark.deep
def test_ten_minute_outage_of_the_forge_api_only_delays(desk: Desk, fake: Any) -> None:
    assert_outage_is_survived(desk, fake, OPENING)


@pytest.mark.deep
@pytest.mark.parametrize("part", PARTS)
def test_ten_minute_outage_of_the_forge_only_delays(desk: Desk, github: Any, part: str) -> None:
    assert_outage_is_survived(desk, github, PARTS[part])


def assert_outage_is_survived(desk: Desk, fake: Any, where: str) -> None:
    fake.faults.answer(503, times=TEN_MINUTES, where=where)
    with start_bench(fake, desk, create_project(desk, fake.kind.lower(), fake), *SCRIPT, haste=10_000) as bench:
        job = bench.run_job()
        waited = bench.events(job.id, "waiting")
    assert (job.status, len(fake.pulls)) == (COMPLETED, 1), job.message
    assert [told["seconds"] for told in waited[:7]] == [1, 2, 4, 8, 16, 32, 60]
    assert sum(told["seconds"] for told in waited) >= 600
    assert all("503" in told["why"] for told in waited)


@pytest.mark.deep
def test_short_outage_of_the_forge_only_delays(desk: Desk, github: Any) -> None:
    with start_bench(github, desk, create_project(desk, "github", github), *SCRIPT) as bench:
        github.faults.cut(times=1000)
        job_id = bench.start()
        wait_until(lambda: len(bench.events(job_id, "waiting")) == 2)
        github.faults.clear()
        job = bench.wait_for_end(job_id)
        assert job.status is COMPLETED, job.message
        waited = [told["seconds"] for told in bench.events(job.id, "waiting")]
        assert waited == [1, 2, 4, 8, 16][: len(waited)], (
            "the forge may have come back a moment too late for the third try"
        )
    assert read_file_on_branch(github, job.branch, "docs/index.md") == b"# Hello\n\nThe color of things.\n"


@pytest.mark.deep
def test_rate_limit_is_waited_out_as_the_forge_says(desk: Desk, fake: Any) -> None:
    status = 403 if fake.kind == "GitHub" else 429
    fake.faults.secondary_limit(retry_after=37, status=status, where=OPENING)
    with start_bench(fake, desk, create_project(desk, fake.kind.lower(), fake), *SCRIPT, haste=1000) as bench:
        job = bench.run_job()
        assert job.status is COMPLETED, job.message
        assert [told["seconds"] for told in bench.events(job.id, "waiting")] == [37]
    assert len(fake.pulls) == 1


@pytest.mark.deep
@pytest.mark.parametrize("part", mark_drills(PARTS, default=("push",)))
def test_permanent_outage_fails_the_job_within_its_time(desk: Desk, github: Any, part: str) -> None:
    github.faults.answer(503, times=10_000, where=PARTS[part])
    with start_bench(github, desk, create_project(desk, "github", github), *SCRIPT, minutes=0.5, haste=100) as bench:
        job = bench.run_job()
        waited = [told["seconds"] for told in bench.events(job.id, "waiting")]
    assert (job.status, job.reason) == (FAILED, Reason.REPOSITORY_ERROR)
    assert "retried until it ran out of time" in (job.message or "")
    assert len(waited) >= 2
    assert waited == [1, 2, 4, 8, 16][: len(waited)], "no pause may go beyond the job's half minute"
    assert (job.finished_at or 0) - job.created_at < 30_000


@pytest.mark.parametrize("part", mark_drills(PARTS, default=("api",)))
def test_silent_forge_fails_the_job_within_its_time(desk: Desk, github: Any, part: str) -> None:
    github.faults.slow(60, times=1, where=PARTS[part])
    with start_bench(github, desk, create_project(desk, "github", github), *SCRIPT, minutes=2.5 / 60) as bench:
        job = bench.run_job()
    assert (job.status, job.reason in (Reason.REPOSITORY_ERROR, Reason.TIMED_OUT)) == (FAILED, True), job.message
    assert (job.finished_at or 0) - job.created_at < 30_000
    assert github.pulls == []


@pytest.mark.parametrize("part", PARTS)
def test_canceling_ends_a_wait_immediately(desk: Desk, github: Any, part: str) -> None:
    github.faults.answer(503, times=10_000, where=PARTS[part])
    with start_bench(github, desk, create_project(desk, "github", github), *SCRIPT, haste=1 / 600) as bench:
        job_id = bench.start()
        wait_until(lambda: len(bench.events(job_id, "waiting")) == 1)
        desk.jobs.cancel(bench.project.id, job_id)
        assert bench.get(job_id).reason is Reason.CANCELLED
        wait_until(bench.raised_errors.is_set)  # otherwise the pause of ten minutes would end first
    assert github.pulls == []
