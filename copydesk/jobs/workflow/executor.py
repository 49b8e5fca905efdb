"""What a worker does with a claimed run: the workflow's steps, and whatever way they end."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from copydesk.core.db.database import Database
from copydesk.core.errors import Explained, NoRoom, StoreDown, is_for_want_of_room
from copydesk.core.projects.projects import Projects
from copydesk.core.projects.sealed_secrets import Secrets, model_keys
from copydesk.core.settings import Settings
from copydesk.core.telemetry import instruments as measured
from copydesk.core.telemetry import traces
from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.models.registry import ModelUnavailable, model_for
from copydesk.jobs.execution.journal import Journal, Lost
from copydesk.jobs.execution.tracing import attempt_span
from copydesk.jobs.execution.worker import Attempt, Interrupted
from copydesk.jobs.job import FAILED, Ending, Job, JobFailed, Reason
from copydesk.jobs.publish.forges.local import Pulls
from copydesk.jobs.publish.forges.polling import notice_ends
from copydesk.jobs.publish.repository_access import forge_of_project
from copydesk.jobs.sandbox.probe import probe
from copydesk.jobs.sandbox.sandbox import Sandbox, Unavailable
from copydesk.jobs.workflow.isolation import ChildPool, Limits
from copydesk.jobs.workflow.maintenance import notice_merges, pack_mirrors, tidy
from copydesk.jobs.workflow.run import Run
from copydesk.jobs.workspace.repository_limits import MIB

log = logging.getLogger(__name__)

ModelFor = Callable[[str], Model]
ROUND_SECONDS = 300.0


class Performer:
    def __init__(
        self, database: Database, settings: Settings, secrets: Secrets, pulls: Pulls, model: ModelFor | None = None
    ) -> None:
        self.database, self.settings, self.secrets, self.pulls = database, settings, secrets, pulls
        self.projects = Projects(database)
        self.model = model
        limits = Limits(settings.call_cpu_seconds, settings.call_memory_megabytes * MIB)
        self.children = ChildPool(limits, settings.worker_slots)
        self._next_round = time.monotonic() + ROUND_SECONDS
        self._probing = threading.Lock()
        self._sandbox: Sandbox | Unavailable | None = None
        projects = self.projects.all()
        if projects:
            self.children.start()  # the first job would wait for it
        if any(project.policy.check_command for project in projects):
            threading.Thread(target=self.sandbox, name="probe", daemon=True).start()

    def perform(self, attempt: Attempt) -> None:
        """Carries the run out as far as it goes. A lost claim ends in silence: a later attempt owns the run."""
        began = time.monotonic()
        self.children.start()  # it loads its modules while the repository is fetched
        with attempt_span(self.database, attempt.claim) as span:
            ending = self._perform(attempt, span)
            if ending is not None:
                _note(ending, attempt.claim.number, attempt.claim.age / 1000 + time.monotonic() - began)

    def _perform(self, attempt: Attempt, span: traces.Span) -> Ending | None:
        """How the run ended, unless that is another's to say."""
        journal = Journal(self.database, attempt.claim)
        try:
            ending = self._work(journal, attempt)
        except Lost:
            span.fail("lost")
            return None
        except StoreDown:
            raise
        except Interrupted:
            if not attempt.timed_out:
                span.fail("interrupted")
                return None
            minutes = f"{self.settings.job_minutes:g} minutes"
            ending = Ending(FAILED, Reason.TIMED_OUT, f"The job was not finished within {minutes}.")
        except JobFailed as failure:
            ending = Ending(FAILED, failure.reason, str(failure))
        except Exception as failure:
            if is_for_want_of_room(failure):
                raise NoRoom from failure
            log.exception("job %s failed", attempt.claim.job_id)
            ending = Ending(FAILED, Reason.INTERNAL_ERROR, "Something went wrong inside Copydesk; its log says what.")
        if not journal.settle(ending):
            span.fail("lost")
            return None
        span.set(status=ending.status, reason=ending.reason or "none")
        if ending.status is FAILED:
            span.fail(ending.reason or FAILED)
        return ending

    def housekeeping(self) -> None:
        """About once a minute; what reaches out to repositories less often."""
        tidy(self.database, self.settings)
        if time.monotonic() >= self._next_round:
            self._next_round = time.monotonic() + ROUND_SECONDS
            notice_merges(self.database, self.settings, self.pulls, self.secrets)
            notice_ends(self.database, self.projects.all(), self.secrets)
            pack_mirrors(self.settings)

    def close(self) -> None:
        """Ends the child processes."""
        self.children.close()

    def sandbox(self) -> Sandbox | Unavailable:
        """Probed once, by a real run, at start where a project has a check command: a machine does not change."""
        with self._probing:
            if self._sandbox is None:
                self._sandbox = probe([self.settings.data.absolute(), Path.home()])
                if isinstance(self._sandbox, Unavailable):
                    log.warning("check commands are refused: %s", self._sandbox.why)
            return self._sandbox

    def _work(self, journal: Journal, attempt: Attempt) -> Ending:
        if attempt.claim.crashes >= self.settings.most_attempts:
            raise JobFailed(f"Given up: its worker died in each of {self.settings.most_attempts} attempts.")
        job, project = journal.job(), self.projects.get(attempt.claim.project_id)
        try:
            secrets = self.secrets.all(project.id)
        except StoreDown:
            raise
        except Explained as failure:
            raise JobFailed(str(failure), Reason.REPOSITORY_ERROR) from None
        with forge_of_project(project, secrets, attempt.deadline) as forge:
            return Run(
                settings=self.settings,
                journal=journal,
                attempt=attempt,
                job=job,
                project=project,
                secrets=secrets,
                forge=forge,
                model=lambda: self._model(job, secrets),
                sandbox=self.sandbox,
                children=self.children,
            ).carry_out()

    def _model(self, job: Job, secrets: Mapping[str, str]) -> Model:
        try:
            if self.model is not None:
                return self.model(job.model)
            return model_for(
                job.model,
                url=self.settings.model_url,
                keys=model_keys(secrets),
                window=self.settings.model_window,
            )
        except ModelUnavailable as error:
            raise JobFailed(str(error), Reason.MODEL_ERROR) from None


def _note(ending: Ending, run: int, seconds: float) -> None:
    reason = ending.reason or "none"
    measured.runs.add(ending.status, reason)
    measured.run_seconds.observe(seconds, ending.status)
    log.info("run %d ended as %s (%s) after %.1f seconds", run, ending.status, reason, seconds)
