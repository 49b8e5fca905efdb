"""Selects the next tests of an xdist worker: those of a file, or of files that need the same expensive parts."""

from itertools import count

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

UNSPLIT_FOLDERS = ("tests/analytics/stores/clickhouse/", "tests/jobs/agent/")
"""Each worker with some of these starts an engine or loads all providers' libraries, which costs seconds of CPU."""
MOSTLY_WAITING_FOLDERS = (
    *UNSPLIT_FOLDERS, "tests/crash/", "tests/faults/", "tests/cli/", "tests/browser/", "tests/test_docs.py",
    "tests/analytics/stores/conformance/", "tests/analytics/stores/shared/", "tests/jobs/storage/test_run_traces.py",
    "tests/web/operations/", "tests/web/test_draining.py", "tests/web/test_no_leaks_in_telemetry.py",
)  # fmt: skip
"""Tests that wait for other processes more than they compute.

They have few tests each and would run last, on idle cores.
"""


class BalancedScheduling(LoadFileScheduling):  # type: ignore[misc]
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._turns = count()

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((folder for folder in UNSPLIT_FOLDERS if file.startswith(folder)), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assigns waiting tests every other time, so that other workers compute meanwhile."""
        if next(self._turns) % 2 == 0:
            waiting = next((scope for scope in self.workqueue if scope.startswith(MOSTLY_WAITING_FOLDERS)), None)
            if waiting is not None:
                self.workqueue.move_to_end(waiting, last=False)
        super()._assign_work_unit(node)
