"""Executes a claimed run: runs the workflow's steps and records how they ended."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from copydesk.core.db.database import Database
from copydesk.core.errors import DiskFull, StoreUnavailable, UserFacingError, is_disk_full
from copydesk.core.projects.projects import Project, Projects
from copydesk.core.projects.sealed_secrets import SealedSecrets, select_model_keys
from copydesk.core.settings import Settings
from copydesk.core.telemetry import instruments, traces
from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.models.registry import ModelUnavailable, create_model
from copydesk.jobs.execution.attempt import Attempt, AttemptStopped
from copydesk.jobs.execution.journal import Journal, LeaseLost
from copydesk.jobs.execution.tracing import attempt_span
from copydesk.jobs.job import FAILED, Job, JobFailed, JobOutcome, Reason
from copydesk.jobs.projects.context_mirrors import ContextAccess
from copydesk.jobs.projects.context_repositories import ContextRepositories
from copydesk.jobs.publish.forge_retry import retry_while_unavailable
from copydesk.jobs.publish.forges.local import LocalPulls
from copydesk.jobs.publish.forges.polling import archive_closed_pulls
from copydesk.jobs.publish.forges.review_reminder import ReviewReminder
from copydesk.jobs.publish.forges.webhooks.receiver import WebhookReceiver
from copydesk.jobs.publish.repository_access import open_forge_if_remote
from copydesk.jobs.sandbox.probe import probe
from copydesk.jobs.sandbox.sandbox import Sandbox, SandboxUnavailable
from copydesk.jobs.workflow.isolation import ChildLimits, ChildPool
from copydesk.jobs.workflow.maintenance import (
    archive_and_expire,
    delete_orphaned_mirrors,
    delete_unused_context_mirrors,
    detect_merges,
    pack_mirrors,
)
from copydesk.jobs.workflow.repository_retries import pause_run
from copydesk.jobs.workflow.run import RunWorkflow
from copydesk.jobs.workflow.run_handover import MoveAutomationRuns

log = logging.getLogger(__name__)

ModelFactory = Callable[[str], Model]
PrepareRun = Callable[[Journal, Project, Job], JobOutcome | None]
"""Completes the messages of an automation's run before it begins. Returns how a run without anything to do ends."""
REMOTE_MAINTENANCE_SECONDS = 300.0


class RunExecutor:
    def __init__(
        self,
        database: Database,
        settings: Settings,
        secrets: SealedSecrets,
        pulls: LocalPulls,
        model_factory: ModelFactory | None = None,
        more_maintenance: Callable[[], None] = lambda: None,
        prepare_run: PrepareRun = lambda journal, project, job: None,
        move_automation_runs: MoveAutomationRuns = lambda tx, job_id, message_ids, new_job_id: None,
    ) -> None:
        """`more_maintenance` runs with the other maintenance tasks. It is for tasks that need more than the jobs."""
        self.database = database
        self.settings = settings
        self.secrets = secrets
        self.pulls = pulls
        self.projects = Projects(database)
        self.contexts = ContextRepositories(database, secrets)
        self.receiver = WebhookReceiver(database, self.projects, pulls.jobs, secrets)
        self.reminder = ReviewReminder(database, settings.review_reminder_days)
        self.model_factory = model_factory
        self.more_maintenance = more_maintenance
        self.prepare_run = prepare_run
        self.move_automation_runs = move_automation_runs
        limits = ChildLimits.from_settings(settings)
        self.children = ChildPool(limits, settings.worker_slots)
        self._next_remote_maintenance = time.monotonic() + REMOTE_MAINTENANCE_SECONDS
        self._probe_lock = threading.Lock()
        self._sandbox: Sandbox | SandboxUnavailable | None = None
        projects = self.projects.all()
        if projects:
            self.children.start()  # so that the first job does not wait for it
        if any(project.policy.check_command for project in projects):
            threading.Thread(target=self.get_sandbox, name="probe", daemon=True).start()

    def execute(self, attempt: Attempt) -> None:
        """Executes the run and records its outcome. If the lease is lost, records nothing: another attempt owns it."""
        started = time.monotonic()
        self.children.start()  # the fork server loads its modules while the repository is fetched
        with attempt_span(self.database, attempt.claim) as span:
            outcome = self._execute(attempt, span)
            if outcome is not None:
                _record_outcome(
                    outcome, attempt.claim.run_number, attempt.claim.worked_ms / 1000 + time.monotonic() - started
                )

    def _execute(self, attempt: Attempt, span: traces.Span) -> JobOutcome | None:
        """Returns how the run ended, or None if a later attempt decides that."""
        journal = Journal(self.database, attempt.claim)
        try:
            outcome = self._run_workflow(journal, attempt)
        except LeaseLost:
            span.mark_failed("lost")
            return None
        except StoreUnavailable:
            raise
        except AttemptStopped:
            if not attempt.timed_out:
                span.mark_failed("interrupted")
                return None
            minutes = f"{self.settings.job_minutes:g} minutes"
            outcome = JobOutcome(
                FAILED, Reason.TIMED_OUT, f"The job did not finish within {minutes}. Request less at once."
            )
        except JobFailed as failure:
            outcome = JobOutcome(FAILED, failure.reason, str(failure))
        except Exception as failure:
            if is_disk_full(failure):
                raise DiskFull from failure
            if not journal.holds_lease():  # for example because the project was deleted with its clone
                span.mark_failed("lost")
                return None
            log.exception("job %s failed", attempt.claim.job_id)
            outcome = JobOutcome(
                FAILED, Reason.INTERNAL_ERROR, "An internal error stopped the job. See the Copydesk log for details."
            )
        if not journal.finish_run(outcome):
            span.mark_failed("lost")
            return None
        span.set_attributes(status=outcome.status, reason=outcome.reason or "none")
        if outcome.status is FAILED:
            span.mark_failed(outcome.reason or FAILED)
        return outcome

    def run_maintenance(self) -> None:
        """Runs the maintenance tasks. Called about once a minute; tasks that use the network run less often."""
        archive_and_expire(self.database, self.settings)
        self.receiver.process_due_events()
        is_remote_due = time.monotonic() >= self._next_remote_maintenance
        detect_merges(self.database, self.settings, self.pulls, self.secrets, only_on_this_machine=not is_remote_due)
        if is_remote_due:
            self._next_remote_maintenance = time.monotonic() + REMOTE_MAINTENANCE_SECONDS
            archive_closed_pulls(self.database, self.projects.all(), self.secrets, self.receiver, self.reminder)
            self.reminder.check_local_pulls()
            delete_orphaned_mirrors(self.database, self.settings)
            delete_unused_context_mirrors(self.database, self.settings, self.secrets)
            pack_mirrors(self.settings)
        self.more_maintenance()

    def close(self) -> None:
        """Ends the child processes."""
        self.children.close()

    def get_sandbox(self) -> Sandbox | SandboxUnavailable:
        """Returns the sandbox, or why there is none. Probes only once, by running a command, and caches the answer.

        If a project has a check command, the probe runs in the background at startup."""
        with self._probe_lock:
            if self._sandbox is None:
                self._sandbox = probe([self.settings.data.absolute(), Path.home()])
                if isinstance(self._sandbox, SandboxUnavailable):
                    log.warning("check commands cannot run: %s", self._sandbox.reason)
            return self._sandbox

    def _run_workflow(self, journal: Journal, attempt: Attempt) -> JobOutcome:
        if attempt.claim.crashes >= self.settings.max_attempts:
            raise JobFailed(f"The job failed because its worker crashed in {self.settings.max_attempts} attempts.")
        job = journal.load_job()
        project = self.projects.get(attempt.claim.project_id)
        try:
            secrets = self.secrets.all(project.id)
        except StoreUnavailable:
            raise
        except UserFacingError as failure:
            raise JobFailed(str(failure), Reason.REPOSITORY_ERROR) from None
        if job.automation_id is not None:
            if outcome := self._prepare_run(journal, attempt, project, job):
                return outcome
            job = journal.load_job()  # its prompt may have changed
        with open_forge_if_remote(project, secrets, attempt.deadline) as forge:
            return RunWorkflow(
                settings=self.settings,
                journal=journal,
                attempt=attempt,
                job=job,
                project=project,
                secrets=secrets,
                forge=forge,
                model=lambda: self._create_model(job.model, secrets),
                review_model=lambda name: self._create_model(name, secrets),
                sandbox=self.get_sandbox,
                children=self.children,
                contexts=self._load_contexts(job, project, secrets),
                find_context=lambda name: self._find_context(project, secrets, name),
                move_automation_runs=self.move_automation_runs,
            ).execute()

    def _prepare_run(self, journal: Journal, attempt: Attempt, project: Project, job: Job) -> JobOutcome | None:
        """Completes the messages of an automation's run. Waits while a repository is unavailable."""

        def pause(seconds: float, reason: str) -> None:
            pause_run(journal, attempt, seconds, reason)

        return retry_while_unavailable(lambda: self.prepare_run(journal, project, job), pause, attempt.deadline)

    def _load_contexts(self, job: Job, project: Project, secrets: Mapping[str, str]) -> list[ContextAccess]:
        """Returns the context repositories of the job. The mechanic reads none."""
        if job.model == "mechanic":
            return []
        return [
            ContextAccess.build(project, secrets, context)
            for context in self.contexts.list(project.id)
            if job.context is None or context.name in job.context
        ]

    def _find_context(self, project: Project, secrets: Mapping[str, str], name: str) -> ContextAccess | None:
        found = [context for context in self.contexts.list(project.id) if context.name == name]
        return ContextAccess.build(project, secrets, found[0]) if found else None

    def _create_model(self, name: str, secrets: Mapping[str, str]) -> Model:
        try:
            if self.model_factory is not None:
                return self.model_factory(name)
            return create_model(
                name,
                url=self.settings.model_url,
                keys=select_model_keys(secrets),
                window_tokens=self.settings.model_window,
            )
        except ModelUnavailable as error:
            raise JobFailed(str(error), Reason.MODEL_ERROR) from None


def _record_outcome(outcome: JobOutcome, run_number: int, seconds: float) -> None:
    reason = outcome.reason or "none"
    instruments.ended_runs.labels(outcome.status, reason).inc()
    instruments.run_seconds.labels(outcome.status).observe(seconds)
    log.info("run %d ended as %s (%s) after %.1f seconds", run_number, outcome.status, reason, seconds)
