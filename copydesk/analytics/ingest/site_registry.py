"""The sites that views come from: each project's choices and its key, made once and shared by all its views."""

import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import TypeVar

from copydesk.analytics.classification import ip_ranges as ranges
from copydesk.analytics.classification.agent_table import table
from copydesk.analytics.classification.classifier import Classifier
from copydesk.analytics.classification.crawler_list import opinions
from copydesk.analytics.ingest.raw_view import Site
from copydesk.analytics.ingest.visitor_ids import Key, Rotation
from copydesk.analytics.stores.base import Store
from copydesk.core.errors import StoreDown
from copydesk.core.projects.collection_options import Collecting
from copydesk.core.projects.projects import Project, Projects
from copydesk.core.projects.sealed_secrets import Secrets

LOOKED_UP_EVERY = 5
"""Seconds for which a site's project is taken to be unchanged."""
SETTLED_WITHIN, SETTLED_IN_TIME = 2.0, 60.0
"""Seconds that a request, and that a command, waits for others that count or change what is counted."""
MOST_REMEMBERED = 10_000
T = TypeVar("T")


class Unsettled(StoreDown):
    message = "The AI classes of this project are being changed; try again shortly."


class Sites:
    def __init__(self, projects: Projects, secrets: Secrets, data: Path) -> None:
        self._projects, self._secrets = projects, secrets
        self._ranges = ranges_file(data)
        self._lock, self._settling = threading.Lock(), threading.Lock()
        self._named: OrderedDict[str, tuple[float, Project]] = OrderedDict()
        self._sites: OrderedDict[str, tuple[Collecting, Classifier, Site]] = OrderedDict()
        self._counted: dict[str, tuple[str, ...]] = {}
        self._classifier: tuple[float, Classifier] | None = None

    def named(self, site_id: str) -> tuple[Project, Site]:
        """By the id that stands in the site's pages; SiteNotFound otherwise."""
        now = time.monotonic()
        until, project = self._named.get(site_id) or (0.0, None)
        if project is None or until < now:
            project = self._projects.of_site(site_id)
            with self._lock:
                _remember(self._named, site_id, (now + LOOKED_UP_EVERY, project))
        return project, self.of(project)

    def of(self, project: Project) -> Site:
        chosen, classifier = project.collecting, self.classifier
        known = self._sites.get(project.id)
        if known and known[0] == chosen and known[1] is classifier:
            return known[2]
        secret = bytes.fromhex(self._secrets.made(project.id, "visitor_key"))
        key = Key(project.id, secret, Rotation(chosen.privacy))
        site = Site(project.id, classifier, key, chosen.base_path, frozenset(chosen.kept_parameters))
        with self._lock:
            _remember(self._sites, project.id, (chosen, classifier, site))
        return site

    def settle(self, project: Project, store: Store, patience: float = SETTLED_WITHIN) -> None:
        """Makes the store count as AI what the project says, whenever that has changed."""
        wanted = project.collecting.ai_classes
        if self._counted.get(project.id) == wanted:
            return
        if not self._settling.acquire(timeout=patience):
            raise Unsettled
        try:
            store.count_as_ai(project.id, wanted, patience)
            self._counted[project.id] = wanted
        finally:
            self._settling.release()

    @property
    def classifier(self) -> Classifier:
        """Made anew when the file of address ranges was."""
        try:
            written = self._ranges.stat().st_mtime
        except OSError:
            written = 0.0
        if self._classifier is None or self._classifier[0] != written:
            lists = ranges.Ranges(ranges.current(self._ranges))
            self._classifier = written, Classifier(table(), lists, opinions())
        return self._classifier[1]


def ranges_file(data: Path) -> Path:
    """Where refreshed address ranges are kept; without it, those that Copydesk ships with hold."""
    return data.absolute() / "ranges.json"


def _remember(known: OrderedDict[str, T], name: str, value: T) -> None:
    known[name] = value
    known.move_to_end(name)
    if len(known) > MOST_REMEMBERED:
        known.popitem(last=False)
