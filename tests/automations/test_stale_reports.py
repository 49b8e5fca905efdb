"""The report of stale pages: requested once, computed by one worker in the background, stored for all servers."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import update

from copydesk.automations.tables import page_comparisons
from copydesk.automations.triggers.stale_pages.computation import MAX_ATTEMPTS, ReportComputation
from copydesk.automations.triggers.stale_pages.finder import StalePageFinder
from copydesk.automations.triggers.stale_pages.reports import ReportState, StaleReport, StaleReports
from copydesk.core import clock
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.projects.staleness.comparison import Comparison
from copydesk.jobs.workflow.isolation.page_lookups import ComparisonRequest
from tests.automations.conftest import Bench
from tests.automations.test_stale_pages import CLI, PAGE, read_pages, write
from tests.support.repositories import make_repository

RENAMED = b'parser.add("--preview")\n'
EMPTY = StaleReport(
    pages=[], page_count=0, popular_count=0, known_count=0, has_sources=False, is_complete=True, contexts=[]
)


@pytest.fixture
def code(bench: Bench, tmp_path: Path) -> Path:
    path = make_repository(tmp_path / "code.git", {"src/cli.py": CLI})
    bench.desk.contexts.add(bench.project, NewContext("product", str(path)), actor="test")
    pages = {"mkdocs.yml": b"site_name: x\n", "docs/run.md": PAGE, "docs/home.md": b"# Home\n"}
    write(bench.repository, pages, 100, "Describe the command", "Grace")
    return path


def move_clock(bench: Bench, ms: int) -> None:
    """Makes everything that the table says older."""
    names = ("requested_at", "claimed_until", "finished_at", "computed_at")
    with bench.desk.database.write() as tx:
        tx.execute(update(page_comparisons).values({name: page_comparisons.c[name] - ms for name in names}))


def compute(bench: Bench) -> ReportState:
    bench.desk.stale_pages.computation.tick()
    return bench.desk.stale_pages.reports.load(bench.project.id)


def count_comparisons(bench: Bench) -> tuple[ReportComputation, list[ComparisonRequest]]:
    """Returns a computation that lists the comparisons which it really makes."""
    desk, made = bench.desk, list[ComparisonRequest]()

    def compare(request: ComparisonRequest) -> Comparison:
        made.append(request)
        return desk.page_lookups.compare(request)

    finder = StalePageFinder(desk.database, desk.list_watched_repositories, compare)
    return ReportComputation(desk.database, desk.stale_pages.reports, desk.reader_signals, finder), made


@pytest.mark.deep
def test_worker_computes_what_was_requested(bench: Bench, code: Path) -> None:
    reports = bench.desk.stale_pages.reports
    read_pages(bench, run=3, home=9)
    renamed = write(code, {"src/cli.py": RENAMED}, 10, "Rename the flag", "Bob")
    assert compute(bench) == ReportState(), "nothing was requested"
    assert reports.request(bench.project.id)
    assert reports.load(bench.project.id).requested_at is not None
    state = compute(bench)
    assert (state.requested_at, state.problem) == (None, None)
    assert state.report is not None
    [page] = state.report.pages
    assert (page.path, page.readers, page.file, page.edited.author) == ("/run", 3, "docs/run.md", "Grace")
    [source] = page.sources
    assert (source.repository, source.path, source.names) == ("product", "src/cli.py", ["--dry-run"])
    assert [(each.id, each.author, each.subject) for each in source.commits] == [(renamed, "Bob", "Rename the flag")]
    assert (state.report.popular_count, state.report.known_count, state.report.contexts) == (2, 2, ["product"])
    assert state.find_page("/run") == page
    assert state.find_page("/home") is None


def test_request_waits_for_the_one_before_and_for_a_minute(bench: Bench) -> None:
    reports = bench.desk.stale_pages.reports
    assert reports.request(bench.project.id)
    assert reports.request(bench.project.id), "one is under way"
    first = reports.load(bench.project.id).requested_at
    claimed = reports.claim_next()
    assert claimed is not None
    assert reports.request(bench.project.id)
    assert reports.load(bench.project.id).requested_at == first
    reports.finish(claimed, "key", EMPTY)
    assert not reports.request(bench.project.id), "it ended less than a minute ago"
    assert reports.claim_next() is None
    move_clock(bench, 61 * clock.SECOND)
    assert reports.request(bench.project.id)
    assert reports.claim_next() is not None


def test_one_worker_computes_at_a_time_and_another_takes_over_when_it_is_killed(bench: Bench) -> None:
    reports, other = bench.desk.stale_pages.reports, StaleReports(bench.desk.database)
    reports.request(bench.project.id)
    killed = reports.claim_next()
    assert killed is not None
    assert other.claim_next() is None
    move_clock(bench, 59 * clock.SECOND)
    assert reports.renew(killed)
    move_clock(bench, 59 * clock.SECOND)
    assert other.claim_next() is None, "the claim was renewed"
    move_clock(bench, 2 * clock.SECOND)
    successor = other.claim_next()
    assert successor is not None
    assert not reports.renew(killed)
    reports.fail(killed, "Too late.")
    state = reports.load(bench.project.id)
    assert (state.problem, state.requested_at is None) == (None, False), "the claim was lost"
    other.finish(successor, "key", EMPTY)
    assert reports.load(bench.project.id).report == EMPTY


@pytest.mark.deep
def test_workers_that_begin_together_compute_once(bench: Bench, code: Path) -> None:
    read_pages(bench, run=3)
    bench.desk.stale_pages.reports.request(bench.project.id)
    computation, made = count_comparisons(bench)
    workers = [threading.Thread(target=computation.tick) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(made) == 1
    assert bench.desk.stale_pages.reports.load(bench.project.id).report is not None


@pytest.mark.deep
def test_unchanged_commits_are_not_compared_again(bench: Bench, code: Path) -> None:
    reports = bench.desk.stale_pages.reports
    read_pages(bench, run=3)
    write(code, {"src/cli.py": RENAMED}, 10)
    computation, made = count_comparisons(bench)
    for readers in (3, 5):
        read_pages(bench, run=readers)
        reports.request(bench.project.id)
        computation.tick()
        [page] = reports.load(bench.project.id).report.pages  # type: ignore[union-attr]
        assert page.readers == readers
        move_clock(bench, clock.HOUR)
    assert len(made) == 1
    write(code, {"src/other.py": b"x = 1\n"}, 1)
    reports.request(bench.project.id)
    computation.tick()
    assert len(made) == 2


@pytest.mark.deep
def test_failure_says_why_and_keeps_the_last_report(bench: Bench, code: Path) -> None:
    reports = bench.desk.stale_pages.reports
    read_pages(bench, run=3)
    reports.request(bench.project.id)
    before = compute(bench)
    code.rename(code.with_name("gone.git"))
    move_clock(bench, clock.HOUR)
    assert reports.request(bench.project.id)
    after = compute(bench)
    assert (after.problem or "").startswith("The context repository product cannot be read. ")
    assert after.report == before.report
    assert after.computed_at is not None
    assert after.finished_at is not None
    assert after.computed_at < after.finished_at
    code.with_name("gone.git").rename(code)
    move_clock(bench, clock.HOUR)
    reports.request(bench.project.id)
    assert compute(bench).problem is None


def test_comparison_that_kills_its_workers_is_given_up(bench: Bench) -> None:
    reports = bench.desk.stale_pages.reports
    reports.request(bench.project.id)
    for _ in range(MAX_ATTEMPTS):
        assert reports.claim_next() is not None
        move_clock(bench, clock.HOUR)
    state = compute(bench)
    assert state.requested_at is None
    assert state.problem == "The comparison was interrupted 3 times. See the Copydesk log for details."


def test_opened_report_is_computed_again_after_a_day_or_with_other_context_repositories(bench: Bench) -> None:
    reports = bench.desk.stale_pages.reports
    assert reports.load_recent(bench.project.id, []).requested_at is not None
    claimed = reports.claim_next()
    assert claimed is not None
    reports.finish(claimed, "key", EMPTY)
    move_clock(bench, 23 * clock.HOUR)
    assert reports.load_recent(bench.project.id, []).requested_at is None
    assert reports.load_recent(bench.project.id, ["product"]).requested_at is not None
    claimed = reports.claim_next()
    assert claimed is not None
    reports.finish(claimed, "key", EMPTY)
    move_clock(bench, 25 * clock.HOUR)
    assert reports.load_recent(bench.project.id, []).requested_at is not None


@pytest.mark.deep
def test_secrets_and_hostile_names_do_not_reach_the_report(bench: Bench, code: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    write(code, {"src/cli\u2028.py": b'parser.add("--hostile-flag")\n'}, 200)
    write(bench.repository, {"docs/run.md": b"# Run\n\nUse `--hostile-flag`.\n"}, 90)
    read_pages(bench, run=3)
    write(code, {"src/cli\u2028.py": b'parser.add("--x")\n'}, 10, f"Use {secret}", "Eve\x1b]0;x\x07")
    bench.desk.stale_pages.reports.request(bench.project.id)
    report = compute(bench).report
    assert report is not None
    assert len(report.pages) == 1
    text = report.model_dump_json()
    assert secret not in text
    assert all(char.isprintable() for char in text)
