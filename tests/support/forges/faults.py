"""What goes wrong with a forge, switched on by a test."""

import re
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Fault:
    """Befalls the calls whose `METHOD /path` has the pattern in it, so often or so long."""

    kind: str
    where: str = ""
    times: float = float("inf")
    within: str = ""
    until: float = float("inf")
    status: int = 503
    seconds: float = 0

    def befalls(self, line: str) -> bool:
        meant = self.within in line and re.search(self.where, line) is not None
        return meant and self.times > 0 and time.monotonic() < self.until


@dataclass
class Faults:
    """`where` is a regular expression on `METHOD /path`: "POST .*/pulls$", "receive-pack", "/api/"."""

    prefix: str
    active: list[Fault] = field(default_factory=list)
    branch_lag_calls: int = 0
    branch_lag_seconds: float = 0
    pull_lag_calls: int = 0
    protected: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def down(self, seconds: float, *, status: int = 503, where: str = "") -> None:
        """Nothing but this status, for so long."""
        self.active.append(Fault("status", where, until=time.monotonic() + seconds, status=status))

    def answer(self, status: int, *, times: int = 1, where: str = "") -> None:
        """A bare 5xx from the forge, the next so many times."""
        self.active.append(Fault("status", where, times, status=status))

    def html(self, *, status: int = 502, times: int = 1, where: str = "") -> None:
        """A proxy's error page instead of JSON."""
        self.active.append(Fault("html", where, times, status=status))

    def cut(self, *, times: float = 1, seconds: float = float("inf"), where: str = "") -> None:
        """The connection ends before anything was done."""
        self.active.append(Fault("cut", where, times, until=time.monotonic() + seconds))

    def lose_answer(self, *, times: int = 1, where: str) -> None:
        """The forge acts, and the connection ends before it says so."""
        self.active.append(Fault("lose", where, times))

    def slow(self, seconds: float, *, times: float = float("inf"), where: str = "") -> None:
        self.active.append(Fault("slow", where, times, seconds=seconds))

    def rate_limit(self, *, times: float = 1, reset_in: int = 60, status: int = 403, where: str = "") -> None:
        """The hour's allowance is used up."""
        self.active.append(Fault("primary", where, times, self.prefix, status=status, seconds=reset_in))

    def secondary_limit(self, *, times: float = 1, retry_after: int = 1, status: int = 403, where: str = "") -> None:
        """Too much at once, says the forge, and when to come back."""
        self.active.append(Fault("secondary", where, times, self.prefix, status=status, seconds=retry_after))

    def branch_lag(self, *, calls: int = 0, seconds: float = 0) -> None:
        """What is pushed from now on is not seen by the API for so many calls on the repository, or so long."""
        self.branch_lag_calls, self.branch_lag_seconds = calls, seconds

    def pull_lag(self, *, calls: int) -> None:
        """A pull request opened from now on is left out of so many lists."""
        self.pull_lag_calls = calls

    def protect(self, branch: str) -> None:
        """Pushes to this branch (a shell pattern) are declined."""
        self.protected.add(branch)

    def clear(self) -> None:
        self.active.clear()
        self.protected.clear()
        self.branch_lag_calls = self.pull_lag_calls = 0
        self.branch_lag_seconds = 0

    def take(self, line: str, kind: str | None = None) -> Fault | None:
        """The fault that befalls this call, used up by one."""
        with self._lock:
            for fault in self.active:
                if (fault.kind == kind if kind else fault.kind != "slow") and fault.befalls(line):
                    fault.times -= 1
                    return fault
        return None
