"""Runs the tests in several processes that are forked after the collection, so that it is paid for once.

Each process asks for the next file of tests when it has finished one. A process that dies ends the run, and the test
that it ran has failed.
"""

import atexit
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest
from _pytest.capture import CaptureManager
from _pytest.terminal import TerminalReporter

SLOW_IMPORTS = (
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.google",
    "pydantic_ai.models.openai",
    "copydesk.mcp.http.requests",
)
"""Are imported once, before the workers start: the product imports them late, so each worker would do it again."""
SECONDS_TO_END = 20
"""How long the other processes may take to stop their servers when a run ends early."""


class ForkedWorkers:
    """Replaces the loop over the tests if there is more than one worker."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._workers: dict[Connection, _Worker] = {}
        self._files: deque[list[int]] = deque()
        """The positions of the tests of each file that no worker has taken yet."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        options = session.config.option
        if options.workers < 2 or session.testsfailed or options.collectonly or options.usepdb:
            return None
        files = groupby(range(len(session.items)), key=lambda position: session.items[position].path)
        self._files.extend(sorted((list(positions) for _, positions in files), key=len, reverse=True))
        for module in SLOW_IMPORTS:
            import_module(module)
        assert threading.active_count() == 1, "a thread that the collection started would be missing in the workers"
        try:
            for _ in range(min(options.workers, len(self._files))):
                self._start_worker(session)
            while self._workers:
                for connection in wait(list(self._workers)):
                    assert isinstance(connection, Connection)
                    self._receive(session, connection)
        finally:
            self._stop_workers()
        return True

    def _start_worker(self, session: pytest.Session) -> None:
        connection, workers_end = Pipe()
        process_id = os.fork()
        if process_id:
            workers_end.close()
            self._workers[connection] = _Worker(process_id)
            return
        for inherited in (connection, *self._workers):
            inherited.close()
        _run_worker(session, workers_end)

    def _receive(self, session: pytest.Session, connection: Connection) -> None:
        worker, hook = self._workers[connection], self._config.hook
        try:
            kind, value = connection.recv()
        except (EOFError, ConnectionResetError):
            self._end_worker(connection)
            return
        if kind == "next":
            connection.send(self._files.popleft() if self._files else None)
        elif kind == "start":
            worker.nodeid, worker.location = value
            hook.pytest_runtest_logstart(nodeid=worker.nodeid, location=worker.location)
        elif kind == "report":
            hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=self._config, data=value))
        elif kind == "finish":
            hook.pytest_runtest_logfinish(nodeid=worker.nodeid, location=worker.location)
        elif kind == "error":
            worker.error = value
        else:
            worker.is_finished = True
        if session.shouldfail:
            raise session.Failed(session.shouldfail)

    def _end_worker(self, connection: Connection) -> None:
        """Forgets a worker that has ended. If it died, reports its test as failed and ends the run."""
        worker = self._workers.pop(connection)
        status = os.waitstatus_to_exitcode(os.waitpid(worker.process_id, 0)[1])
        if worker.is_finished:
            return
        cause = f"signal {-status}" if status < 0 else f"exit code {status}"
        text = f"The process that ran this test died ({cause}), which ends the run.\n{worker.error}"
        self._config.hook.pytest_runtest_logreport(
            report=pytest.TestReport(worker.nodeid, worker.location, {}, "failed", text, "call")
        )
        raise pytest.Session.Failed(f"a process died while it ran {worker.nodeid}")

    def _stop_workers(self) -> None:
        """Interrupts the workers that are left, as in a run that ends early, and kills those that go on."""
        for worker in self._workers.values():
            with suppress(ProcessLookupError):
                os.kill(worker.process_id, signal.SIGINT)
        deadline = time.monotonic() + SECONDS_TO_END
        for connection, worker in self._workers.items():
            connection.close()
            while os.waitpid(worker.process_id, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(worker.process_id, signal.SIGKILL)
                time.sleep(0.05)


class _Worker:
    """A forked process, and the test that it runs."""

    def __init__(self, process_id: int) -> None:
        self.process_id = process_id
        self.nodeid = "no test"
        self.location: tuple[str, int | None, str] = ("", None, "")
        self.error = ""
        self.is_finished = False


class _Sender:
    """Sends the results of a worker to the process that shows them."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._connection.send(("start", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data: dict[str, Any] = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_runtest_logfinish(self) -> None:
        self._connection.send(("finish", None))


def _run_worker(session: pytest.Session, connection: Connection) -> None:
    """Runs files of tests until there are no more, and ends the process."""
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    assert isinstance(reporter, TerminalReporter)
    assert isinstance(capture, CaptureManager)
    config.pluginmanager.unregister(reporter)
    capture._global_capturing = None  # its files are shared with the other processes; libraries keep them as sys.stderr
    capture.start_global_capturing()
    config.pluginmanager.register(_Sender(config, connection))
    status = 1
    try:
        try:
            _run_tests(session, connection)
        finally:  # ends the fixtures
            status = pytest.ExitCode.TESTS_FAILED if session.testsfailed else pytest.ExitCode.OK
            config.hook.pytest_sessionfinish(session=session, exitstatus=status)
        connection.send(("finished", None))
    except KeyboardInterrupt:
        pass
    except BaseException:
        connection.send(("error", traceback.format_exc()))
    finally:
        atexit._run_exitfuncs()  # stops servers
        os._exit(status)


def _run_tests(session: pytest.Session, connection: Connection) -> None:
    items = _ask_for_items(session, connection)
    item = next(items, None)
    while item is not None:
        next_item = next(items, None)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        item = next_item


def _ask_for_items(session: pytest.Session, connection: Connection) -> Iterator[pytest.Item]:
    while True:
        connection.send(("next", None))
        positions = connection.recv()
        if positions is None:
            return
        yield from (session.items[position] for position in positions)
