"""Everything wired together from the settings: what the server, the worker and the command line stand on."""

from dataclasses import dataclass

from copydesk.analytics.feedback import Feedback
from copydesk.analytics.keeping import Keeper
from copydesk.analytics.opening import open_store
from copydesk.analytics.shared.owner import FILE
from copydesk.analytics.sites import Sites
from copydesk.analytics.store import Store
from copydesk.core.clock import SECOND
from copydesk.core.database import Database
from copydesk.core.keys import Keys
from copydesk.core.migrate import migrate
from copydesk.core.people import People
from copydesk.core.projects import Project, Projects
from copydesk.core.secrets import Secrets
from copydesk.core.settings import BadSettings, Settings
from copydesk.jobs.agent.models import FORMS, known_model
from copydesk.jobs.performing import ModelFor, Performer
from copydesk.jobs.publish.forges.local import Pulls
from copydesk.jobs.publish.repository import Mirror
from copydesk.jobs.queue import Bounds, Queue
from copydesk.jobs.service import Jobs
from copydesk.jobs.worker import Worker


@dataclass(frozen=True)
class Desk:
    settings: Settings
    database: Database
    projects: Projects
    secrets: Secrets
    keys: Keys
    people: People
    jobs: Jobs
    pulls: Pulls
    sites: Sites
    store: Store
    keeper: Keeper
    feedback: Feedback

    def worker(self, model: ModelFor | None = None) -> Worker:
        settings = self.settings
        bounds = Bounds(int(settings.lease_seconds * SECOND), settings.project_slots, settings.total_slots)
        performer = Performer(self.database, settings, self.secrets, self.pulls, model)
        return Worker(
            Queue(self.database, bounds), performer, slots=settings.worker_slots, job_seconds=settings.job_minutes * 60
        )

    def mirror(self, project: Project) -> Mirror:
        """The repository, with the token that the project has for it."""
        return Mirror.of(self.settings.mirrors, project, self.secrets.get(project.id, "forge_token"))

    @property
    def may_have_views(self) -> bool:
        """An embedded store that nothing ever came to is not opened only to find that out."""
        return bool(self.settings.analytics_url) or (self.settings.data / FILE).exists()

    def counted(self, project: Project) -> Store:
        """The store, once it has counted what has arrived, as the project says. It waits: call it in a thread."""
        self.sites.settle(project, self.store)
        self.keeper.fresh()
        return self.store

    def close(self) -> None:
        self.store.close()
        self.database.close()


def open_desk(settings: Settings) -> Desk:
    """Opens the stores and brings them up to date."""
    for variable, name in (
        ("COPYDESK_MODEL", settings.model),
        *(("COPYDESK_MODELS", name) for name in settings.models),
    ):
        if not known_model(name):
            raise BadSettings(f"{variable}: there is no model {name!r}; write one of {', '.join(FORMS)}.")
    settings.make_data_folder()
    database = Database(settings.database)
    migrate(database)
    projects, secrets = Projects(database), Secrets(database, settings)
    store = open_store(settings, database)
    jobs = Jobs(database, default_model=settings.model, more_models=settings.models, per_hour=settings.jobs_per_hour)
    keys = Keys(database, settings.keys_per_hour)
    return Desk(
        settings=settings,
        database=database,
        projects=projects,
        secrets=secrets,
        keys=keys,
        people=People(database, keys),
        jobs=jobs,
        pulls=Pulls(database, jobs),
        sites=Sites(projects, secrets, settings.data),
        store=store,
        keeper=Keeper(store, lambda: {project.id: project.collecting.raw_days for project in projects.all()}),
        feedback=Feedback(database),
    )
