"""The parts of the service, created from the settings for the server, the worker and the command line."""

import logging
from functools import cached_property
from typing import TYPE_CHECKING

from copydesk.core.accounts.api_keys import ApiKeys
from copydesk.core.accounts.people import People
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import migrate
from copydesk.core.errors import StoreUnavailable
from copydesk.core.projects.project_rows import delete_rate_limits
from copydesk.core.projects.projects import Project, Projects
from copydesk.core.projects.sealed_secrets import SealedSecrets
from copydesk.core.settings import Settings
from copydesk.jobs.agent.models.model_names import check_model_names
from copydesk.prompts.library import PromptLibrary

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from sqlalchemy import Connection

    from copydesk.analytics.history import History
    from copydesk.analytics.ingest.collector import Collector
    from copydesk.analytics.ingest.site_registry import SiteRegistry
    from copydesk.analytics.ingest.uncounted_requests import UncountedCounter
    from copydesk.analytics.interactions.conversations import Conversations
    from copydesk.analytics.interactions.feedback import Feedback
    from copydesk.analytics.interactions.searches import Searches
    from copydesk.analytics.stores.base import Store
    from copydesk.analytics.stores.fold_scheduler import FoldScheduler
    from copydesk.automations.files.sync import AutomationFiles
    from copydesk.automations.service import Automations
    from copydesk.automations.triggers.look_requests import LookRequests
    from copydesk.automations.triggers.looks import WatchedRepository
    from copydesk.automations.triggers.stale_pages.service import StalePages
    from copydesk.automations.triggers.watch import RepositoryWatch
    from copydesk.jobs.execution.worker import Worker
    from copydesk.jobs.projects.context_repositories import ContextRepositories
    from copydesk.jobs.publish.forges.local import LocalPulls
    from copydesk.jobs.publish.git.mirror import Mirror
    from copydesk.jobs.service import Jobs
    from copydesk.jobs.workflow.executor import ModelFactory
    from copydesk.jobs.workflow.isolation.page_lookups import PageLookups
    from copydesk.reader_signals import AnalyticsSignals
    from copydesk.sharing.service import Sharing
    from copydesk.webhooks.service import Webhooks

log = logging.getLogger(__name__)


class Desk:
    """All parts of the service. Creates the parts that are slow to import at their first use.

    Creating them is not thread-safe: `open_desk` creates all of them before any thread starts.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.database = database
        self.projects = Projects(database)
        self.secrets = SealedSecrets(database, settings)
        self.keys = ApiKeys(database, settings.keys_per_hour, settings.extra_key_prefixes)
        self.people = People(database, self.keys)
        self.prompts = PromptLibrary(database)
        self._purged_ids: set[str] = set()
        """The deleted projects whose page views this process has deleted, before they are settled."""

    @cached_property
    def jobs(self) -> "Jobs":
        from copydesk.jobs.service import Jobs

        settings = self.settings
        return Jobs(
            self.database,
            default_model=settings.model,
            more_models=(*settings.models, *settings.models_by_alias.values()),
            per_hour=settings.jobs_per_hour,
        )

    @cached_property
    def contexts(self) -> "ContextRepositories":
        from copydesk.automations.records import find_names_watching
        from copydesk.jobs.projects.context_repositories import ContextRepositories

        return ContextRepositories(self.database, self.secrets, find_names_watching)

    @cached_property
    def reader_signals(self) -> "AnalyticsSignals":
        from copydesk.reader_signals import AnalyticsSignals

        def get_store(project_id: str) -> "Store":
            return self.get_folded_store(self.projects.get(project_id))

        return AnalyticsSignals(self.feedback, self.searches, get_store)

    @cached_property
    def automations(self) -> "Automations":
        from copydesk.automations.service import Automations
        from copydesk.automations.triggers.starting_points import StartingPoints

        points = StartingPoints(self.list_watched_repositories, self.look_requests)
        return Automations(self.database, self.jobs, self.reader_signals, points)

    @cached_property
    def stale_pages(self) -> "StalePages":
        from copydesk.automations.triggers.stale_pages.service import StalePages

        compare = self.page_lookups.compare
        return StalePages(self.database, self.reader_signals, self.list_watched_repositories, compare)

    @cached_property
    def page_lookups(self) -> "PageLookups":
        from copydesk.jobs.workflow.isolation.page_lookups import PageLookups

        return PageLookups(self.settings)

    @cached_property
    def look_requests(self) -> "LookRequests":
        from copydesk.automations.triggers.look_requests import LookRequests

        return LookRequests(self.database, self.contexts)

    @cached_property
    def automation_files(self) -> "AutomationFiles":
        from copydesk.automations.files.sync import AutomationFiles

        def list_contexts(project_id: str) -> list[str]:
            return [context.name for context in self.contexts.list(project_id)]

        return AutomationFiles(self.database, self.automations, list_contexts)

    @cached_property
    def pulls(self) -> "LocalPulls":
        from copydesk.jobs.publish.forges.local import LocalPulls

        return LocalPulls(self.database, self.jobs)

    @cached_property
    def sites(self) -> "SiteRegistry":
        from copydesk.analytics.ingest.site_registry import SiteRegistry

        return SiteRegistry(self.projects, self.secrets, self.settings.data)

    @cached_property
    def store(self) -> "Store":
        from copydesk.analytics.stores.open_store import open_store

        return open_store(self.settings, self.database)

    @cached_property
    def fold_scheduler(self) -> "FoldScheduler":
        from copydesk.analytics.stores.fold_scheduler import FoldScheduler

        projects = self.projects
        return FoldScheduler(
            self.store,
            lambda: {project.id: project.collecting.raw_retention_days for project in projects.all()},
            delete_expired=self.delete_expired_interactions,
        )

    @cached_property
    def collector(self) -> "Collector":
        from copydesk.analytics.ingest.collector import Collector

        return Collector(self.store.log_views, lambda: self.fold_scheduler.notify_new_views())

    @cached_property
    def uncounted(self) -> "UncountedCounter":
        from copydesk.analytics.ingest.uncounted_requests import UncountedCounter

        return UncountedCounter(self.database)

    @cached_property
    def rate_limit_executor(self) -> "ThreadPoolExecutor":
        """Returns the executor, with one thread, that synchronizes rate limits with the other processes."""
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(max_workers=1, thread_name_prefix="limits")

    @cached_property
    def history(self) -> "History":
        from copydesk.analytics.history import History

        return History(self.database)

    @cached_property
    def feedback(self) -> "Feedback":
        from copydesk.analytics.interactions.limited_stores import open_feedback

        return open_feedback(self.database, self.settings)

    @cached_property
    def searches(self) -> "Searches":
        from copydesk.analytics.interactions.limited_stores import open_searches

        return open_searches(self.database, self.settings)

    @cached_property
    def conversations(self) -> "Conversations":
        from copydesk.analytics.interactions.limited_stores import open_conversations

        return open_conversations(self.database, self.settings)

    @cached_property
    def sharing(self) -> "Sharing":
        from copydesk.sharing.service import Sharing
        from copydesk.sharing.summary.weekly_summaries import SummarySources

        sources = SummarySources(self.projects, self.feedback, self.get_folded_store)
        return Sharing(self.database, self.settings, sources)

    @cached_property
    def webhooks(self) -> "Webhooks":
        from copydesk.webhooks.service import Webhooks

        return Webhooks(self.database, self.settings, self.secrets)

    def delete_expired_interactions(self) -> int:
        """Deletes feedback, searches and questions that are older than their project keeps them, and old counts of
        requests that were not counted. Returns how many rows."""
        from copydesk.analytics.interactions.limited_stores import delete_expired_entries
        from copydesk.core.clock import today

        stores = (self.feedback, self.searches, self.conversations)
        return delete_expired_entries(*stores, self.projects.all(), today()) + self.uncounted.delete_expired(today())

    def delete_interactions(self, project_id: str) -> int:
        """Deletes all feedback, searches and questions of a project. Returns how many."""
        stores = (self.feedback, self.searches, self.conversations)
        return sum(store.delete_entries(project_id) for store in stores)

    def create_worker(self, model: "ModelFactory | None" = None) -> "Worker":
        from copydesk.automations.records import move_runs
        from copydesk.automations.triggers.look_requests import LOOK_TICK_SECONDS, RequestedLooks
        from copydesk.automations.triggers.scheduler import TICK_SECONDS, Scheduler
        from copydesk.core.clock import SECOND
        from copydesk.jobs.execution.queue import Queue, QueueLimits
        from copydesk.jobs.execution.worker import PeriodicTask, Worker
        from copydesk.jobs.workflow.executor import RunExecutor

        settings = self.settings
        bounds = QueueLimits(int(settings.lease_seconds * SECOND), settings.project_slots, settings.total_slots)
        purge, prepare_run = self.purge_deleted_projects, self.stale_pages.prepare_run
        executor = RunExecutor(self.database, settings, self.secrets, self.pulls, model, purge, prepare_run, move_runs)
        scheduler = Scheduler(self.database, self.automations.firing)
        watch = self.create_repository_watch()
        return Worker(
            Queue(self.database, bounds),
            executor,
            slots=settings.worker_slots,
            job_seconds=settings.job_minutes * 60,
            more_tasks=[
                PeriodicTask("schedules", TICK_SECONDS, scheduler.tick),
                PeriodicTask("watch", settings.watch_minutes * 60, watch.tick),
                PeriodicTask("requested looks", LOOK_TICK_SECONDS, RequestedLooks(self.look_requests, watch).tick),
                *self.sharing.list_tasks(),
                *self.webhooks.list_tasks(),
                *self.stale_pages.list_tasks(),
            ],
        )

    def create_repository_watch(self) -> "RepositoryWatch":
        from copydesk.automations.triggers.watch import RepositoryWatch
        from copydesk.core.clock import SECOND

        settings = self.settings
        return RepositoryWatch(
            self.database,
            self.automations.firing,
            self.list_watched_repositories,
            quiet_ms=int(settings.quiet_minutes * 60 * SECOND),
            lease_ms=int((settings.watch_minutes + 1) * 60 * SECOND),
            sync_files=self.automation_files.sync_all,
        )

    def list_watched_repositories(self, project: Project) -> "list[WatchedRepository]":
        """Returns the repositories that automations of the project can watch: its own and its context repositories."""
        from copydesk.automations.triggers.project_repositories import list_project_repositories

        contexts = self.contexts.list(project.id)
        return list_project_repositories(project, self.secrets.all(project.id), contexts, self.settings)

    def open_mirror(self, project: Project) -> "Mirror":
        """Returns the mirror of the project's repository, with the project's forge token."""
        from copydesk.jobs.publish.git.mirror import Mirror
        from copydesk.jobs.workspace.repository_limits import RepositoryLimits

        self.settings.require_data_folder()
        token = self.secrets.get(project.id, "forge_token")
        limits = RepositoryLimits.from_settings(self.settings)
        return Mirror.for_project(self.settings.mirrors_folder, project, token, limits=limits)

    def delete_project(self, project: Project, *, actor: str) -> bool:
        """Deletes a project and everything that belongs to it, permanently. Stops its running jobs.

        Returns whether its page views are deleted too. If the analytics store is unavailable, a worker deletes them
        later.
        """
        import copydesk.analytics.tables
        import copydesk.mail.tables
        import copydesk.sharing.tables  # noqa: F401 - these imports add tables to those that are searched for rows
        from copydesk.automations.records import lock_automations_of_project
        from copydesk.core.projects.project_events import lock_endpoints_of_project
        from copydesk.jobs.projects.project_deletion import lock_project_and_stop_jobs
        from copydesk.jobs.publish.git.mirror import delete_mirror

        def lock_and_stop(tx: "Connection") -> None:
            lock_automations_of_project(tx, project.id)
            lock_project_and_stop_jobs(self.database, tx, project.id)
            lock_endpoints_of_project(tx, project.id)

        self.projects.delete(project, actor=actor, before_write=lock_and_stop)
        delete_mirror(self.settings.mirrors_folder / f"{project.id}.git")
        try:
            self.purge_deleted_projects()
        except StoreUnavailable as error:
            log.warning("the page views of project %s are not deleted yet: %s", project.id, error)
            return False
        return True

    def purge_deleted_projects(self) -> None:
        """Deletes the page views and rate limits of deleted projects.

        A project is purged at once, and again when it is settled, because views may arrive after the deletion; the
        audit log records that.
        """
        from copydesk.jobs.projects.project_deletion import list_pending_purges, record_purge

        for pending in list_pending_purges(self.database):
            if not pending.is_settled and pending.project_id in self._purged_ids:
                continue
            with self.database.write() as tx:
                delete_rate_limits(tx, pending.project_id)
            if self.may_have_views:
                self.store.forget_project(pending.project_id)
            self._purged_ids.add(pending.project_id)
            if pending.is_settled:
                record_purge(self.database, pending.project_id)

    @property
    def may_have_views(self) -> bool:
        """Returns whether there may be any views.

        False when the embedded store's file does not exist, which saves opening, and so creating, the store.
        """
        from copydesk.analytics.stores.shared.server import DUCKDB_FILE

        return bool(self.settings.analytics_url) or (self.settings.data / DUCKDB_FILE).exists()

    def get_folded_store(self, project: Project) -> "Store":
        """Returns the store after it has applied the project's AI classes and folded all views so far.

        Blocks, so call it in a thread.
        """
        self.sites.apply_ai_classes(project, self.store)
        self.fold_scheduler.wait_until_folded()
        return self.store

    def close(self) -> None:
        """Stops the threads that were started, and closes the stores that were opened."""
        if "collector" in vars(self):
            self.collector.close()
        if "uncounted" in vars(self):
            self.uncounted.close()
        if "rate_limit_executor" in vars(self):
            self.rate_limit_executor.shutdown()
        if "page_lookups" in vars(self):
            self.page_lookups.close()
        if "store" in vars(self):
            self.store.close()
        self.database.close()


def open_desk_lazily(settings: Settings, *, create: bool = True) -> Desk:
    """Opens and migrates the database. The other parts are created at first use, so use the desk in one thread only.

    Without `create`, raises DataFolderMissing if there is no data folder or no SQLite database yet.
    """
    check_model_names(settings)
    if create:
        settings.make_data_folder()
    else:
        settings.require_database()
    return open_desk_on_database(settings)


def open_desk_on_database(settings: Settings) -> Desk:
    """Opens and migrates the database of an existing data folder, without a check of the other settings."""
    database = Database(settings.resolved_database_url)
    migrate(database)
    return Desk(settings, database)


def open_desk(settings: Settings) -> Desk:
    """Opens and migrates the stores and creates every part, so that threads can share the desk."""
    desk = open_desk_lazily(settings)
    for name, member in vars(Desk).items():
        if isinstance(member, cached_property):
            getattr(desk, name)
    return desk
