"""Another process that uses the store of a folder: executes commands, or logs views until it is killed."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.shared import SharedStore
from copydesk.analytics.stores.shared.client import StoreServerLost
from copydesk.core.clock import DAY

MONDAY = 20_458
BATCH_VIEWS = 10


def make_view(path: str = "/", visitor: int | None = 1, event: int | None = None, day: int = MONDAY) -> PageView:
    return PageView(
        "docs",
        path,
        day * DAY + 5,
        VisitorClass.HUMAN,
        "",
        "",
        "rule",
        "1",
        visitor,
        "docs.example.com",
        "",
        200,
        event,
    )


class NeighborProcess:
    def __init__(self, process: ForkServerProcess, pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe

    def ask(self, name: str, *arguments: object) -> Any:
        self.begin(name, *arguments)
        return self.answer()

    def begin(self, name: str, *arguments: object) -> None:
        self.pipe.send((name, arguments))

    def answer(self) -> Any:
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pause(self) -> None:
        """Returns when every thread has stopped, which is a moment after the signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        while any(_thread_state(thread) != "T" for thread in Path(f"/proc/{self.process.pid}/task").iterdir()):
            time.sleep(0.01)

    def resume(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


@contextmanager
def start_neighbors(folder: Path, count: int = 1) -> Iterator[list[NeighborProcess]]:
    processes, started = multiprocessing.get_context("forkserver"), []
    try:
        for _ in range(count):
            ours, theirs = processes.Pipe()
            process = processes.Process(target=_serve_commands, args=(folder, theirs))
            process.start()
            theirs.close()
            started.append(NeighborProcess(process, ours))
        yield started
    finally:
        for neighbour in started:
            neighbour.kill()


def _thread_state(thread: Path) -> str:
    return (thread / "stat").read_text().rsplit(")", 1)[1].split()[0]


def _serve_commands(folder: Path, pipe: Connection) -> None:
    store = SharedStore(folder)
    while True:
        name, arguments = pipe.recv()
        if name == "go on logging":
            _log_until_killed(store, pipe, *arguments)
        try:
            pipe.send(getattr(store, name)(*arguments))
        except Exception as error:
            pipe.send(error)


def _log_until_killed(store: SharedStore, pipe: Connection, path: str) -> None:
    """Logs views without event ids: reports each call before it is made, and its result afterward."""
    while True:
        pipe.send("sent")
        try:
            store.log_views([make_view(path) for _ in range(BATCH_VIEWS)])
            pipe.send("kept")
        except StoreServerLost:
            pipe.send("unknown")
