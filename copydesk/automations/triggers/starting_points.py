"""Where an automation begins to watch: the commits and tags that its repositories have when it is created.

They are read before the automation is stored, so every later commit differs from them and starts a run.
"""

import logging
import time
from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, delete

from copydesk.automations.automation import Automation
from copydesk.automations.definition import ReleaseTrigger
from copydesk.automations.tables import automation_sources
from copydesk.automations.triggers.look_requests import LookRequests
from copydesk.automations.triggers.looks import (
    ListRepositories,
    Refs,
    WatchedRepository,
    is_watched,
    list_remote_refs,
    select_refs,
)
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.errors import StoreUnavailable, UserFacingError
from copydesk.core.projects.projects import Project

log = logging.getLogger(__name__)

MAX_READ_SECONDS = 5.0
"""For all repositories together: a person waits for the response."""


class RemoteRefs(NamedTuple):
    repository: WatchedRepository
    refs: Refs | None
    """None if the repository could not be read in time."""


class StartingPoints:
    def __init__(self, list_repositories: ListRepositories, requests: LookRequests) -> None:
        self.list_repositories = list_repositories
        self.requests = requests

    def read(self, project: Project, automation: Automation) -> Mapping[str, RemoteRefs]:
        """Asks the repositories that the automation watches for their refs, if it is enabled."""
        if not automation.definition.enabled:
            return {}
        try:
            listed = self.list_repositories(project)
        except StoreUnavailable:
            raise
        except UserFacingError as failure:  # such as a token that only the workers have
            log.warning("the repositories of project %s cannot be listed: %s", project.id, failure)
            return {}
        deadline = time.monotonic() + MAX_READ_SECONDS
        points = {}
        for repository in listed:
            if is_watched(automation, repository.name):
                seconds = deadline - time.monotonic()
                refs = list_remote_refs(repository, seconds) if seconds > 0 else None
                points[repository.name] = RemoteRefs(repository, refs if isinstance(refs, dict) else None)
        return points

    def store_in(
        self, tx: Connection, old: Automation | None, automation: Automation, points: Mapping[str, RemoteRefs]
    ) -> None:
        """Stores where the automation begins, in the transaction that creates or changes it.

        Keeps what it has seen before, unless it watches other refs now. A repository that could not be read begins with
        its first look, which is requested at once.
        """
        if old is not None and _describe_refs(old) != _describe_refs(automation):
            tx.execute(delete(automation_sources).where(automation_sources.c.automation_id == automation.id))
        for name, (repository, refs) in points.items():
            if not is_watched(automation, name):
                continue
            try:
                seen = select_refs(automation, repository, refs) if refs is not None else None
            except UserFacingError:  # the branch does not exist; the look leaves a notice
                seen = None
            if seen is None:
                self.requests.request_in(tx, automation.project_id, name)
                continue
            row = {"automation_id": automation.id, "name": name, "address": repository.address}
            times = {"pending_since": None, "changed_at": None}
            insert_if_absent(tx, automation_sources, {**row, "seen": seen, "fired": seen, **times})


def _describe_refs(automation: Automation) -> tuple[str, str | None]:
    """Returns which refs the automation watches: those of its type of trigger, and for releases the tags."""
    trigger = automation.definition.trigger
    return trigger.type, trigger.tags if isinstance(trigger, ReleaseTrigger) else None
