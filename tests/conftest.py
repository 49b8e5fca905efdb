"""Fixtures and hooks for every test: databases, a served Copydesk, and settings of the run."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import migrated_databases
from tests.support.costs import Costs
from tests.support.forked_workers import ForkedWorkers
from tests.support.postgres import new_database
from tests.support.programs import summarize_skips
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

DATABASE_NAMES = ("sqlite", "postgres")
DATABASES = ("sqlite", pytest.param("postgres", marks=pytest.mark.deep))
# No deadline: examples take longer on a slow machine. Fixtures of functions hold no state that examples could mix up.
settings.register_profile(
    "default", max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.register_profile("deep", settings.get_profile("default"), max_examples=100)
settings.load_profile("default")
# Tests use no TLS, and reading the machine's certificates would cost each HTTP client 30 ms of CPU.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
# Typer adds and removes this variable while it loads a command; a thread in libgit2 that reads another one could crash.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in background jobs of a shell and in child processes
    signal.signal(signal.SIGINT, signal.default_int_handler)
pytest.register_assert_rewrite("tests.crash")  # for its helpers, which other tests use, too
gc.disable()  # collecting tests creates little garbage


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, metavar="N", help="run the tests in N processes")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ForkedWorkers(config))
    if config.getoption("--hypothesis-profile") != "deep":  # with more examples, a test may cost more
        config.pluginmanager.register(Costs())


def pytest_collection_finish() -> None:
    """Freezes the collected tests, so that garbage collections skip them and forked workers do not copy them."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Ends the run with one line that names the programs whose tests were skipped."""
    gc.unfreeze()  # otherwise DuckDB's bindings report objects as leaks
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        line = summarize_skips(str(report.longrepr) for report in reporter.stats.get("skipped", ()))
        if line is not None:
            reporter.write_line(line)


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Returns the URL of an empty database, on each engine in turn."""
    return f"sqlite:///{tmp_path / 'copydesk.db'}" if request.param == "sqlite" else new_database()


@pytest.fixture(params=DATABASES)
def migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Returns the URL of a migrated database without rows, on each engine in turn."""
    return migrated_databases.new_database(request.param, tmp_path)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Serves Copydesk on SQLite with a worker, over real HTTP, with one project and its key."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    with serve(tmp_path / "data", repository=repository) as running:
        yield running
