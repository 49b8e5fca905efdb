"""Runs one round on DBOS in a separate process: DATABASE_URL JOBS POLLING_SECONDS on the command line, JSON out."""

import json
import sys
import threading
from dataclasses import asdict

from dbos import DBOS

from benchmarks.jobs.engine_race import CONCURRENT_WORKFLOWS, STEPS_PER_WORKFLOW, EngineRound, run_race


def run_round(database_url: str, jobs: int, polling_seconds: float) -> EngineRound:
    DBOS(config={"name": "trivial", "system_database_url": database_url, "log_level": "ERROR"})
    ended = threading.Semaphore(0)

    def three_steps() -> int:
        for number in range(STEPS_PER_WORKFLOW):
            step(number)
        ended.release()
        return STEPS_PER_WORKFLOW

    step = DBOS.step()(_return_number)
    workflow = DBOS.workflow()(three_steps)
    DBOS.launch()
    queue = DBOS.register_queue(
        "trivial", worker_concurrency=CONCURRENT_WORKFLOWS, polling_interval_sec=polling_seconds
    )
    try:
        return run_race(
            jobs, lambda: queue.enqueue(workflow), ended, lambda handle: handle.get_result(polling_interval_sec=0.001)
        )
    finally:
        DBOS.destroy()


def _return_number(number: int) -> int:
    return number


if __name__ == "__main__":
    print(json.dumps(asdict(run_round(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))))
