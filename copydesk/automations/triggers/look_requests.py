"""Requests for a look at a repository: a webhook stores one, and the next worker looks, on any server.

A request says only that the repository may have changed. Commits, tags and paths are read from the repository.
"""

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, select, text, update

from copydesk.automations.definition import ReleaseTrigger
from copydesk.automations.records import automation_from_row
from copydesk.automations.tables import automations, look_requests
from copydesk.automations.triggers.leases import read_database_clock
from copydesk.automations.triggers.looks import is_watched
from copydesk.automations.triggers.watch import SELECT_WATCHING, RepositoryWatch
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.errors import StoreUnavailable
from copydesk.core.ids import new_id
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.projects import Project
from copydesk.jobs.projects.context_repositories import ContextRepositories
from copydesk.jobs.publish.forges.webhooks.pushes import RefChange
from copydesk.jobs.publish.forges.webhooks.receiver import DELIVERY_PREFIX, DeliveryResult
from copydesk.jobs.storage.tables import webhook_deliveries

log = logging.getLogger(__name__)

LOOK_TICK_SECONDS = 3.0
LOOK_INTERVAL_MS = 10 * clock.SECOND
"""Between two requested looks at one repository. It bounds what repeated deliveries can cost."""
CLAIM_MS = 60 * clock.SECOND
"""After this, another worker looks in place of one that was killed."""
MAX_REQUESTS_PER_ROUND = 100
CLAIM_SQL = """
    update look_requests set looked_at = {now}, due_at = {now} + :claim
    where project_id = :project and name = :name and request_id = :request and due_at <= {now}
"""


class RepositoryName(NamedTuple):
    """A repository of a project. `name` is empty for the project's own."""

    name: str
    address: str
    branch: str


class LookRequest(NamedTuple):
    project_id: str
    name: str
    request_id: str


class LookRequests:
    def __init__(self, database: Database, contexts: ContextRepositories, *, claim_ms: int = CLAIM_MS) -> None:
        self.database = database
        self.contexts = contexts
        self.claim_ms = claim_ms
        self._claim = text(CLAIM_SQL.format(now=database.clock_sql))

    def receive(self, project: Project, change: RefChange, delivery_id: str | None) -> DeliveryResult:
        """Stores a request for each repository of the project that a delivery is about, if an automation watches it."""
        contexts = [RepositoryName(each.name, each.repository, each.ref) for each in self.contexts.list(project.id)]
        matching = match_repositories([RepositoryName("", project.repository, project.ref), *contexts], change)
        if not matching:
            return DeliveryResult(
                "ignored",
                f"{change.repository[:200]} is not a repository of this project. If it was renamed, change its address "
                "in Copydesk, too.",
            )
        names = [each.name for each in matching if change.branch in (None, each.branch)]
        if not names:
            return DeliveryResult("ignored", "Copydesk follows another branch of this repository.")
        watched = self._find_watched(project.id, names, is_tag=change.branch is None)
        if project.policy.automation_files and change.branch is not None and "" in names:
            watched = ["", *(name for name in watched if name)]  # its files may have changed
        if not watched:
            return DeliveryResult("ignored", "No automation is started by this event.")
        with refuse_missing_project(self.database, project.id), self.database.write() as tx:
            if delivery_id is not None and not _record_delivery(tx, project.id, delivery_id):
                return DeliveryResult("ignored", "This delivery was already received.")
            for name in watched:
                self.request_in(tx, project.id, name)
        return DeliveryResult("kept", "Copydesk looks at the repository within seconds.")

    def _find_watched(self, project_id: str, names: Sequence[str], *, is_tag: bool) -> list[str]:
        """Returns those of the names that an enabled automation watches for tags, or for its branch."""
        with self.database.read() as tx:
            rows = tx.execute(SELECT_WATCHING.where(automations.c.project_id == project_id)).all()
        watching = [automation_from_row(row) for row in rows]
        same_kind = [each for each in watching if isinstance(each.definition.trigger, ReleaseTrigger) is is_tag]
        return [name for name in names if any(is_watched(automation, name) for automation in same_kind)]

    def request_in(self, tx: Connection, project_id: str, name: str) -> None:
        """Makes a look at the repository due, in the caller's transaction: at once, or when its interval allows it."""
        now = read_database_clock(self.database, tx)
        request_id = new_id("look")
        row = {"project_id": project_id, "name": name, "request_id": request_id, "due_at": now, "looked_at": None}
        if insert_if_absent(tx, look_requests, row):
            return
        same = (look_requests.c.project_id == project_id) & (look_requests.c.name == name)
        query = select(look_requests.c.looked_at).where(same)
        looked_at = tx.execute(query.with_for_update()).scalar()
        due_at = max(now, looked_at + LOOK_INTERVAL_MS) if looked_at is not None and looked_at <= now else now
        tx.execute(update(look_requests).where(same).values(request_id=request_id, due_at=due_at))

    def claim_due(self) -> Iterator[LookRequest]:
        """Yields the requests that are due, each for this process alone until its claim ends.

        Claims each only when it is asked for, so that other workers can do the rest meanwhile.
        """
        query = select(look_requests).where(look_requests.c.due_at <= self.database.now)
        with self.database.read() as tx:
            rows = tx.execute(query.order_by(look_requests.c.due_at).limit(MAX_REQUESTS_PER_ROUND)).all()
        due = [LookRequest(row.project_id, row.name, row.request_id) for row in rows]
        yield from (request for request in due if self._claim_request(request))

    def _claim_request(self, request: LookRequest) -> bool:
        params = {
            "project": request.project_id,
            "name": request.name,
            "request": request.request_id,
            "claim": self.claim_ms,
        }
        with self.database.write() as tx:
            return bool(tx.execute(self._claim, params).rowcount)

    def finish(self, request: LookRequest, next_due_at: int | None) -> None:
        """Stores when to look next, unless a newer request came meanwhile: its look is still due."""
        same = (
            (look_requests.c.project_id == request.project_id)
            & (look_requests.c.name == request.name)
            & (look_requests.c.request_id == request.request_id)
        )
        with self.database.write() as tx:
            tx.execute(update(look_requests).where(same).values(due_at=next_due_at))


class RequestedLooks:
    """Does the looks that are requested. Every worker has one; a claim keeps two from the same look."""

    def __init__(self, requests: LookRequests, watch: RepositoryWatch) -> None:
        self.requests = requests
        self.watch = watch

    def tick(self) -> None:
        """Looks at the repositories whose look is due. A change in its quiet period is due again at its end."""
        for request in self.requests.claim_due():
            next_due_at = None
            try:
                next_due_at = self.watch.look_at(request.project_id, request.name)
            except StoreUnavailable:
                raise
            except Exception:  # the next look at all repositories tries again
                log.exception("could not look at a repository of project %s", request.project_id)
            self.requests.finish(request, next_due_at)


def match_repositories(repositories: Sequence[RepositoryName], change: RefChange) -> list[RepositoryName]:
    """Returns the repositories that a delivery is about: those with its URL, or else those with its full name.

    A server may know itself by another host name than the one that Copydesk uses.
    """
    urls = {_normalize(url) for url in change.urls}
    if same_url := [each for each in repositories if _normalize(each.address) in urls]:
        return same_url
    suffix = f"/{change.repository.strip('/').casefold()}"
    return [each for each in repositories if f"/{_normalize(each.address)}".endswith(suffix)]


def _normalize(address: str) -> str:
    """Returns host and path, without the scheme and `.git`."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    return re.sub(r"\.git$", "", f"{host}{parts.path}".rstrip("/")).casefold()


def _record_delivery(tx: Connection, project_id: str, delivery_id: str) -> bool:
    """Records the delivery. Returns False if it was recorded before."""
    digest = hashlib.sha256(delivery_id.encode("utf-8", "replace")).hexdigest()[:40]
    row = {"project_id": project_id, "id": DELIVERY_PREFIX + digest, "at": clock.now()}
    return insert_if_absent(tx, webhook_deliveries, row)
