"""Which tests one worker of a run is given: those of a file, and those of files that need the same costly parts."""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

TOGETHER = ("tests/analytics/clickhouse/", "tests/jobs/agent/")
"""Each worker that has some of these starts an engine of its own, or loads all providers' libraries: seconds of CPU.
They last long, too, and come first."""


class Sharing(LoadFileScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        first = next((folder for folder in TOGETHER if folder in self.workqueue), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
