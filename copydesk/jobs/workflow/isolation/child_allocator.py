"""Decides which child process a call gets, and whether the call waits for a busy one."""

import threading

from copydesk.jobs.execution.stoppable import Stoppable
from copydesk.jobs.workflow.isolation.child_process import Child
from copydesk.jobs.workflow.isolation.fork_server import ForkServer
from copydesk.jobs.workflow.isolation.warm_up_costs import Task, WarmUpCosts

MAX_WAIT_SECONDS = 10.0
WAIT_PER_WARM_UP = 2.0
"""How many times the cost of a warm-up a call waits: long enough for another call's warm-up that has just begun."""


class _Waiter:
    """A call that waits for a child."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.is_ready = threading.Event()
        self.child: Child | None = None


class ChildAllocator:
    """Gives each call a child of its own: one that has cached the call's task, or else another one.

    If the children that have cached the task are busy, the call waits for one of them, but only about as long as a
    warm-up takes (the ski rental rule). So calls share the caches of a large repository and run in parallel for a
    small one. Calls that wait for the same task get a child in the order in which they came.
    """

    def __init__(self, server: ForkServer, max_idle: int) -> None:
        self._server = server
        self._max_idle = max_idle
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._busy: list[Child] = []
        self._waiters: list[_Waiter] = []
        self._costs = WarmUpCosts()
        self._latest_evicted_rank = 0.0

    def acquire(self, task: Task, stoppable: Stoppable) -> Child:
        """Returns a child, which the caller must start if it is new, and then release or discard."""
        with self._lock:
            child = self._choose(task)
            if child is not None:
                return child
            waiter = _Waiter(task)
            max_seconds = self._get_max_wait(task)
            self._waiters.append(waiter)
        try:
            with stoppable(waiter.is_ready.set):
                waiter.is_ready.wait(max_seconds)
        except BaseException:
            self._abandon(waiter)
            raise
        with self._lock:
            if waiter.child is None:
                self._waiters.remove(waiter)
                waiter.child = self._take_cold(task)
            return waiter.child

    def release(self, child: Child, seconds: float, *, has_failed: bool) -> None:
        """Takes a child back after a call of this duration. A call that failed may have read only a part."""
        with self._lock:
            if not has_failed:
                record = self._costs.record_warm if child.has_cached(child.task) else self._costs.record_cold
                record(child.task, seconds)
                child.cached_functions.add(child.task.function)
            self._put_back(child)
            surplus = self._remove_surplus()
        _end_children(surplus)

    def discard(self, child: Child, lost_seconds: float | None = None) -> int | None:
        """Ends a child and lets the calls that wait for it go on. Returns its exit code, or None if that is unknown.

        `lost_seconds` is the duration of its last call, if every such call makes its child unfit for another one."""
        exit_code = child.end()
        with self._lock:
            self._busy.remove(child)
            if lost_seconds is not None:
                self._costs.record_lost_cache(child.task, lost_seconds)
            self._serve_waiters()
        return exit_code

    def close(self) -> None:
        """Ends the idle children. Busy children end when no call needs them."""
        with self._lock:
            self._max_idle = 0
            surplus = self._remove_surplus()
        _end_children(surplus)

    def _choose(self, task: Task) -> Child | None:
        """Takes a child for a call, or returns None if the call should wait for a busy one.

        Of several children that have cached the task, takes the one whose caches hold the most: the same function
        may read one page now and all pages the next time."""
        warm_children = [child for child in self._idle if child.has_cached(task)]
        if warm_children:
            return self._take(max(warm_children, key=lambda child: child.value), task)
        is_busy = any(child.task == task or child.has_cached(task) for child in self._busy)
        return None if is_busy and self._get_max_wait(task) > 0 else self._take_cold(task)

    def _get_max_wait(self, task: Task) -> float:
        if not task.repository:
            return 0.0
        cost = self._costs.estimate(task)
        return MAX_WAIT_SECONDS if cost is None else min(MAX_WAIT_SECONDS, WAIT_PER_WARM_UP * cost)

    def _take_cold(self, task: Task) -> Child:
        """Takes an idle child of the same repository, or any one if the pool is full, or a new one."""
        same_repository = [child for child in self._idle if child.task.repository == task.repository]
        if same_repository:
            return self._take(max(same_repository, key=lambda child: child.value), task)
        if self._idle and len(self._idle) >= self._max_idle:
            return self._take(self._find_evictable(), task)
        child = Child(self._server, task)
        self._busy.append(child)
        return child

    def _take(self, child: Child, task: Task) -> Child:
        child.assign(task)
        self._idle.remove(child)
        self._busy.append(child)
        return child

    def _put_back(self, child: Child) -> None:
        self._busy.remove(child)
        tasks = [Task(child.task.repository, function) for function in child.cached_functions]
        child.value = sum(self._costs.estimate(task) or 0.0 for task in tasks)
        child.eviction_rank = self._latest_evicted_rank + child.value
        self._idle.append(child)
        self._serve_waiters()

    def _serve_waiters(self) -> None:
        """Gives children to the calls that need not wait any longer."""
        for waiter in list(self._waiters):
            waiter.child = self._choose(waiter.task)
            if waiter.child is not None:
                self._waiters.remove(waiter)
                waiter.is_ready.set()

    def _abandon(self, waiter: _Waiter) -> None:
        """Removes a call that was stopped, and takes back the child that it may just have got."""
        with self._lock:
            if waiter.child is None:
                self._waiters.remove(waiter)
            elif waiter.child.is_started:
                self._put_back(waiter.child)
            else:
                self._busy.remove(waiter.child)
                self._serve_waiters()
            surplus = self._remove_surplus()
        _end_children(surplus)

    def _find_evictable(self) -> Child:
        """Returns the idle child with the lowest rank: the value of its caches plus the rank that was evicted last
        when it became idle (GreedyDual). So costly caches stay longer, but not forever."""
        child = min(self._idle, key=lambda child: child.eviction_rank)
        self._latest_evicted_rank = child.eviction_rank
        return child

    def _remove_surplus(self) -> list[Child]:
        surplus = []
        while len(self._idle) > self._max_idle:
            surplus.append(self._find_evictable())
            self._idle.remove(surplus[-1])
        return surplus


def _end_children(children: list[Child]) -> None:
    for child in children:
        child.end()
