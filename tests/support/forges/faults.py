"""Faults of a forge, which tests switch on."""

import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Fault:
    """Affects calls whose `METHOD /path` matches the pattern, for a number of times or seconds."""

    kind: str
    where: str = ""
    times: float = float("inf")
    within: str = ""
    until: float = float("inf")
    status: int = 503
    seconds: float = 0

    def matches(self, line: str) -> bool:
        is_match = self.within in line and re.search(self.where, line) is not None
        return is_match and self.times > 0 and time.monotonic() < self.until


@dataclass
class Faults:
    """`where` is a regular expression on `METHOD /path`: "POST .*/pulls$", "receive-pack", "/api/"."""

    prefix: str
    active: list[Fault] = field(default_factory=list)
    branch_lag_calls: int = 0
    branch_lag_seconds: float = 0
    pull_lag_calls: int = 0
    protected: set[str] = field(default_factory=set)
    rules: dict[str, Any] = field(default_factory=dict)
    """Rules for pushes, in the forge's own words: of a ruleset on GitHub, push rules on GitLab."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def down(self, seconds: float, *, status: int = 503, where: str = "") -> None:
        """Answers only with this status, for this many seconds."""
        self.active.append(Fault("status", where, until=time.monotonic() + seconds, status=status))

    def answer(self, status: int, *, times: int = 1, where: str = "") -> None:
        """Answers with a bare 5xx, this many times."""
        self.active.append(Fault("status", where, times, status=status))

    def html(self, *, status: int = 502, times: int = 1, where: str = "") -> None:
        """Answers with a proxy's error page instead of JSON."""
        self.active.append(Fault("html", where, times, status=status))

    def cut(self, *, times: float = 1, seconds: float = float("inf"), where: str = "") -> None:
        """Cuts the connection before anything is done."""
        self.active.append(Fault("cut", where, times, until=time.monotonic() + seconds))

    def lose_answer(self, *, times: int = 1, where: str) -> None:
        """Executes the call and cuts the connection before the response."""
        self.active.append(Fault("lose", where, times))

    def slow(self, seconds: float, *, times: float = float("inf"), where: str = "") -> None:
        self.active.append(Fault("slow", where, times, seconds=seconds))

    def rate_limit(self, *, times: float = 1, reset_in: int = 60, status: int = 403, where: str = "") -> None:
        """Answers that the hourly rate limit is used up."""
        self.active.append(Fault("primary", where, times, self.prefix, status=status, seconds=reset_in))

    def secondary_limit(
        self, *, times: float = 1, retry_after: int | None = 1, status: int = 403, where: str = ""
    ) -> None:
        """Answers with a secondary rate limit; with None, without a Retry-After time."""
        self.active.append(Fault("secondary", where, times, self.prefix, status=status, seconds=retry_after or 0))

    def refuse_new_tokens(self, *, times: int = 1, where: str = "") -> None:
        """Answers as a server that does not know a new token yet."""
        self.active.append(Fault("unknown token", where, times, status=401))

    def branch_lag(self, *, calls: int = 0, seconds: float = 0) -> None:
        """Hides later pushes from the API for a number of calls on the repository, or of seconds."""
        self.branch_lag_calls, self.branch_lag_seconds = calls, seconds

    def pull_lag(self, *, calls: int) -> None:
        """Leaves pull requests that are opened later out of this many lists."""
        self.pull_lag_calls = calls

    def protect(self, branch: str) -> None:
        """Declines pushes to this branch (a shell pattern)."""
        self.protected.add(branch)

    def require_rule(self, name: str, value: Any = None) -> None:
        """Adds a rule for pushes: its name, and its parameters or value."""
        self.rules[name] = value

    def clear(self) -> None:
        self.active.clear()
        self.protected.clear()
        self.rules.clear()
        self.branch_lag_calls = self.pull_lag_calls = 0
        self.branch_lag_seconds = 0

    def take(self, line: str, kind: str | None = None) -> Fault | None:
        """Returns the fault that affects this call and reduces its remaining uses by one."""
        with self._lock:
            for fault in self.active:
                if (fault.kind == kind if kind else fault.kind != "slow") and fault.matches(line):
                    fault.times -= 1
                    return fault
        return None
