"""Real parts for every test: databases, repositories, a served Copydesk, and models that follow a script."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from copydesk.cli.quick_exit import QuickExit
from tests.support import migrated
from tests.support.postgres import new_database
from tests.support.programs import summarize_skips
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.support.sharing import Sharing

DATABASES = ("sqlite", "postgres")
settings.register_profile("patient", settings(), deadline=None)  # how long an example takes is the machine's business
settings.load_profile("patient")
# No test leaves the machine, and every client of HTTP would read all of the machine's certificates: 30 ms of CPU each.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job, and in what a test starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
if "PYTEST_XDIST_WORKER" in os.environ:
    QuickExit().status = 0  # else DuckDB's bindings would report as leaks what a daemon thread still holds
gc.disable()  # while tests are collected, nothing becomes garbage that is worth the search


def pytest_collection_finish() -> None:
    """What was collected stays, so that no garbage collection of a test need look at it."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Ends the run with one line that names the programs whose tests were skipped."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        line = summarize_skips(str(report.longrepr) for report in reporter.stats.get("skipped", ()))
        if line is not None:
            reporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing | None:
    """For a run by files; whoever asks for another way gets that."""
    return Sharing(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, on each engine in turn."""
    return f"sqlite:///{tmp_path / 'copydesk.db'}" if request.param == "sqlite" else new_database()


@pytest.fixture(params=DATABASES)
def migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with its tables and nothing in them, on each engine in turn."""
    return migrated.new_database(request.param, tmp_path)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Copydesk on SQLite with a worker, over real HTTP, with one project and its key."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    with serve(tmp_path / "data", repository=repository) as running:
        yield running
