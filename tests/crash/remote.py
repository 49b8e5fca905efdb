"""A job on a fake forge that can kill the worker during a call."""

import os
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from tests.crash.harness import BEFORE, PATIENCE, Case, new_desk, wait_until
from tests.jobs.publish.forges.stage import fake_forge, project_on, watched
from tests.support.repositories import branches

OPENING = {
    "github": ("look", "open", "label?", "label", "reviewer", "look again"),
    "gitlab": ("look", "open", "label?", "label", "reviewer?", "reviewer", "look again"),
    "gitea": ("look", "look by base", "open", "label?", "label", "reviewer", "look again", "look again by base"),
    "forgejo": ("look", "look by base", "open", "label?", "label", "reviewer", "look again", "look again by base"),
}
"""The API calls of a first run, in order."""
UPDATING = {kind: (*(call for call in calls if call in ("look", "look by base")), "update")
            for kind, calls in OPENING.items()}  # fmt: skip
ASKED_FOR = "**Request**"
"""Appears once per run in the text of a pull request."""
LOOK = re.compile(r"^GET \S+/(pulls|merge_requests)\b")
MOMENTS = ("received", "done")
"""`received`: before the forge acts; `done`: after it acted and before it responds."""


@dataclass
class RemoteCase(Case):
    fake: Any = None
    called: list[str] = field(default_factory=list)
    """API calls since recording began, starting with the search for a pull request."""
    met: bool = False

    def proposed(self, runs: int) -> str:
        (pull,) = self.fake.pulls
        pull.update_heads()
        assert (pull.state, pull.head, pull.base) == ("open", self.branch, "main")
        assert (self.job.pr_link or "").endswith(f"/{pull.number}")
        assert (pull.labels, [user.login for user in pull.reviewers]) == (["docs"], ["rita"])
        assert pull.body.count(ASKED_FOR) == runs
        assert pull.comments == []
        return str(pull.sha)

    def listen(self) -> None:
        """Records API calls from now on."""
        self._on_call(lambda moment, line: None)

    def strike(self, call: int, moment: str) -> None:
        """Kills the next worker at its n-th call (from 0), at that moment before the forge responds."""
        self._signal(call, moment, signal.SIGKILL)

    def hold(self, call: int, moment: str) -> threading.Event:
        """Stops the next worker at that call, which waits until the event is set."""
        released = threading.Event()
        self._signal(call, moment, signal.SIGSTOP, released)
        return released

    def _signal(self, call: int, moment: str, sent: int, released: threading.Event | None = None) -> None:
        mine = len(self.workers)

        def on_call(now: str, _line: str) -> None:
            if (now, len(self.called)) != (moment, call + 1) or self.met:
                return
            self.met = True
            wait_until(lambda: len(self.workers) > mine, "the worker's number")
            pid = self.workers[mine].pid
            assert pid is not None
            _send(pid, sent)
            while sent == signal.SIGSTOP and self._is_locked:
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.01)
                _send(pid, sent)
            if released is not None:
                with open(self.diary_file, "a") as diary:
                    diary.write(f"held {call}\n")
                released.wait(PATIENCE)

        self._on_call(on_call)

    @property
    def _is_locked(self) -> bool:
        """Returns whether SQLite is locked, which lasts if the stopped worker was writing its heartbeat."""
        url = make_url(str(self.settings["database_url"]))
        if url.get_backend_name() != "sqlite":
            return False
        connection = sqlite3.connect(str(url.database), timeout=0.2, isolation_level=None)
        try:
            connection.execute("begin immediate")
        except sqlite3.OperationalError:
            return True
        finally:
            connection.close()
        return False

    def _on_call(self, act: Callable[[str, str], None]) -> None:
        self.called.clear()
        self.met = False

        def on_call(moment: str, line: str) -> None:
            if moment == "received" and (self.called or LOOK.search(line)):
                self.called.append(line)
            act(moment, line)

        watched(self.fake, on_call)


def _send(pid: int, sent: int) -> None:
    os.kill(pid, sent)
    wait_until(lambda: _state(pid) in ("T", "Z", "gone"), "the signal to take effect")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return "gone"


@contextmanager
def new_remote_case(kind: str, database: str, folder: Path, **settings: Any) -> Iterator[RemoteCase]:
    with (
        fake_forge(kind, folder / "forge", BEFORE) as fake,
        new_desk(database, folder, **settings) as (desk, chosen),
    ):
        fake.repository.label("docs")
        fake.add_user("rita")
        project = project_on(desk, kind, fake, labels=("docs",), reviewers=("rita",))
        repository = fake.repository.folder
        case = RemoteCase(folder, desk, chosen, project, repository, branches(repository)["main"], fake=fake)
        case.create()
        try:
            yield case
        finally:
            case.close()
