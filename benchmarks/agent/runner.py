"""Runs cases through the real flow: a desk on SQLite, the local forge and a worker. Creates jobs as a client does."""

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agent.cases import EvaluationCase, InvalidCase
from benchmarks.agent.metrics import score_result
from benchmarks.agent.results import Result
from benchmarks.agent.scripted import Script, ScriptedModel, read_script
from benchmarks.agent.sources import BRANCH, CaseSources, PreparedCase
from copydesk.core.settings import read_settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.models.model_names import NAME_FORMS, is_model_name
from copydesk.jobs.checks import check
from copydesk.jobs.job import ACTIVE, Job
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.records import job_topic

SCRIPT_PREFIX = "script:"
_opening_lock = threading.Lock()
"""Serializes migrations, which are not thread-safe."""


@dataclass(frozen=True)
class ModelChoice:
    """The model of a run: a model name that the service knows, or a script of replies."""

    name: str
    script: Script | None = None

    @classmethod
    def parse(cls, name: str) -> "ModelChoice":
        if is_model_name(name):
            return cls(name)
        if not name.startswith(SCRIPT_PREFIX):
            raise InvalidCase(f"There is no model {name!r}; write one of {', '.join(NAME_FORMS)}, {SCRIPT_PREFIX}FILE.")
        path = Path(name.removeprefix(SCRIPT_PREFIX))
        return cls(SCRIPT_PREFIX + path.stem, read_script(path))

    @property
    def setting(self) -> str:
        """Returns a model name that the service knows. For a script, the worker replaces that model."""
        return self.name if self.script is None else "mechanic"

    def model_factory(self, case: EvaluationCase) -> Callable[[str], Model] | None:
        """Returns a factory for the scripted model, or None to use the service's own."""
        if self.script is None:
            return None
        scripted = ScriptedModel(self.script[case.name])
        return lambda _name: scripted

    def select_cases(self, cases: Sequence[EvaluationCase], *, all_of_them: bool) -> list[EvaluationCase]:
        """Returns the cases that the model can run: a script needs replies for each."""
        able = [case for case in cases if self.script is None or case.name in self.script]
        if not able or (all_of_them and len(able) < len(cases)):
            missing = ", ".join(case.name for case in cases if case not in able)
            raise InvalidCase(f"{self.name} has no replies for {missing}.")
        return able


def run_cases(
    cases: Sequence[EvaluationCase],
    model: ModelChoice,
    at_once: int = 1,
    on_result: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Runs the cases and returns their results in the order of the cases."""
    with tempfile.TemporaryDirectory(prefix="copydesk-agent-") as name, ThreadPoolExecutor(at_once) as pool:
        folder = Path(name)
        sources = CaseSources(folder)
        # Prepares all cases before it runs any: a missing commit is reported before a model costs money.
        prepared = [sources.prepare(case, folder / case.name / "repository.git") for case in cases]
        stop = threading.Event()
        running = {
            pool.submit(run_case, case, source, model, folder / case.name / "data", stop): case.name
            for case, source in zip(cases, prepared, strict=True)
        }
        results = {}
        try:
            for future in as_completed(running):
                results[running[future]] = future.result()
                on_result(results[running[future]])
        except BaseException:  # on Ctrl-C too: cancels running jobs and starts no further ones
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [results[case.name] for case in cases]


def run_case(
    case: EvaluationCase, prepared: PreparedCase, model: ModelChoice, data: Path, stop: threading.Event
) -> Result:
    job = run_job(case, prepared, model, data, stop)
    base, result, reference = prepared.trees(job.branch)
    report = check(prepared.workspace(job.branch), root=prepared.root)
    return Result(
        name=case.name,
        tags=case.tags,
        status=job.status,
        reason=job.reason,
        message=job.message,
        score=score_result(base, result, reference),
        findings=tuple(f"{each.path}:{each.line}: {each.message}" for each in report.introduced if not each.is_note),
        requests=job.usage.requests,
        input_tokens=job.usage.input_tokens,
        output_tokens=job.usage.output_tokens,
        cost_usd=job.usage.cost_usd,
        seconds=((job.finished_at or job.updated_at) - job.created_at) / 1000,
    )


def run_job(case: EvaluationCase, prepared: PreparedCase, model: ModelChoice, data: Path, stop: threading.Event) -> Job:
    """Runs the case's prompt as a job of a service, and returns the job when it has ended."""
    with _serve_case(case, model, data) as desk:
        project = desk.projects.create(
            case.name, repository=str(prepared.path), ref=BRANCH, root=prepared.root, actor="benchmark"
        )
        return wait_for_end(desk, desk.jobs.create(project, NewJob(case.prompt)).job, stop)


@contextmanager
def _serve_case(case: EvaluationCase, model: ModelChoice, data: Path) -> Iterator[Desk]:
    """Runs a service with a worker for one case. Addresses, keys and limits come from the environment, as usual."""
    settings = read_settings(data=data, database_url="", model=model.setting, worker_slots=1)
    with _opening_lock:
        desk = open_desk(settings)
    worker = desk.create_worker(model.model_factory(case))
    thread = threading.Thread(target=worker.run, name=case.name, daemon=True)
    thread.start()
    try:
        yield desk
    finally:
        worker.stop()
        thread.join()
        desk.close()


def wait_for_end(desk: Desk, job: Job, stop: threading.Event) -> Job:
    """Waits for the job to end. Every job ends, because its time, requests, tokens and cost are limited."""
    signals, topic = desk.database.notifications, job_topic(job.id)
    while True:
        mark = signals.mark(topic)
        job = desk.jobs.get(job.project_id, job.id)
        if job.status is not ACTIVE:
            return job
        if stop.is_set():
            return desk.jobs.cancel(job.project_id, job.id)
        signals.wait(topic, mark, 1.0)
