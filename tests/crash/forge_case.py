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

from tests.crash.harness import FILES_BEFORE, TIMEOUT_SECONDS, CrashCase, open_new_desk, wait_until
from tests.jobs.publish.forges.extra_calls import forge_kind
from tests.jobs.publish.forges.stage import create_project, fake_forge, watch_calls
from tests.support.repositories import list_branches

OPENING_CALLS = {
    "github": ("look", "open", "label?", "label", "reviewer", "look again"),
    "gitlab": ("look", "open", "label?", "label", "reviewer?", "reviewers", "reviewer", "look again"),
    "gitea": ("look", "look by base", "open", "label?", "label", "reviewer", "look again", "look again by base"),
    "forgejo": ("look", "look by base", "open", "label?", "label", "reviewer", "look again", "look again by base"),
    "gitea-1.16": ("look", "look at closed", "open", "label?", "label", "reviewer", "look again", "and at closed"),
}
"""The API calls of a first run, in order."""
LOOKING_CALLS = ("look", "look by base", "look at closed")
UPDATING_CALLS = {
    kind: (
        *(["closed?"] if forge_kind(kind) in ("gitea", "forgejo") else []),  # before the push
        *(call for call in calls if call in LOOKING_CALLS),
        "update",
    )
    for kind, calls in OPENING_CALLS.items()
}
"""The API calls of a follow-up, in order."""
PROMPT_HEADING = "**Request**"
"""Appears once per run in the text of a pull request."""
LIST_CALL_PATTERN = re.compile(r"^GET \S+/(pulls|merge_requests)\b")
CALL_MOMENTS = ("received", "done")
"""`received`: before the forge acts; `done`: after it acted and before it responds."""


@dataclass
class ForgeCrashCase(CrashCase):
    fake: Any = None
    recorded_calls: list[str] = field(default_factory=list)
    """API calls since recording began, starting with the search for a pull request."""
    is_triggered: bool = False

    def check_pull_request(self, runs: int) -> str:
        (pull,) = self.fake.pulls
        pull.update_heads()
        assert (pull.state, pull.head, pull.base) == ("open", self.branch, "main")
        assert (self.job.pr_link or "").endswith(f"/{pull.number}")
        assert (pull.labels, [user.login for user in pull.reviewers]) == (["docs"], ["rita"])
        assert pull.body.count(PROMPT_HEADING) == runs
        assert pull.comments == []
        return str(pull.sha)

    def record_calls(self) -> None:
        """Records API calls from now on."""
        self._on_call(lambda moment, line: None)

    def kill_at_call(self, call: int, moment: str) -> None:
        """Kills the next worker at its n-th call (from 0), at that moment before the forge responds."""
        self._signal_at_call(call, moment, signal.SIGKILL)

    def pause_at_call(self, call: int, moment: str) -> threading.Event:
        """Stops the next worker at that call, which waits until the event is set."""
        released = threading.Event()
        self._signal_at_call(call, moment, signal.SIGSTOP, released)
        return released

    def _signal_at_call(
        self, call: int, moment: str, signal_number: int, released: threading.Event | None = None
    ) -> None:
        worker_number = len(self.workers)

        def on_call(now: str, _line: str) -> None:
            if (now, len(self.recorded_calls)) != (moment, call + 1) or self.is_triggered:
                return
            self.is_triggered = True
            wait_until(lambda: len(self.workers) > worker_number, "the worker's number")
            pid = self.workers[worker_number].pid
            assert pid is not None
            _send_signal(pid, signal_number)
            while signal_number == signal.SIGSTOP and self._is_locked:
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.01)
                _send_signal(pid, signal_number)
            if released is not None:
                with open(self.diary_file, "a") as diary:
                    diary.write(f"held {call}\n")
                released.wait(TIMEOUT_SECONDS)

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
        self.recorded_calls.clear()
        self.is_triggered = False

        def on_call(moment: str, line: str) -> None:
            if moment == "received" and (self.recorded_calls or LIST_CALL_PATTERN.search(line)):
                self.recorded_calls.append(line)
            act(moment, line)

        watch_calls(self.fake, on_call)


def _send_signal(pid: int, signal_number: int) -> None:
    os.kill(pid, signal_number)
    wait_until(lambda: _process_state(pid) in ("T", "Z", "gone"), "the signal to take effect")


def _process_state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return "gone"


@contextmanager
def open_forge_case(kind: str, database: str, folder: Path, **settings: Any) -> Iterator[ForgeCrashCase]:
    with (
        fake_forge(kind, folder / "forge", FILES_BEFORE) as fake,
        open_new_desk(database, folder, **settings) as (desk, desk_settings),
    ):
        fake.repository.label("docs")
        fake.add_user("rita")
        project = create_project(desk, kind, fake, labels=("docs",), reviewers=("rita",))
        repository = fake.repository.folder
        case = ForgeCrashCase(
            folder, desk, desk_settings, project, repository, list_branches(repository)["main"], fake=fake
        )
        case.create()
        try:
            yield case
        finally:
            case.close()
