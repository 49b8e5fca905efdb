"""The registry of sites: caches each project's analytics configuration and its visitor key."""

import threading
import time
from pathlib import Path

from copydesk.analytics.classification import ip_ranges
from copydesk.analytics.classification.agent_table import load_agent_table
from copydesk.analytics.classification.classifier import Classifier
from copydesk.analytics.classification.crawler_list import load_crawler_list
from copydesk.analytics.ingest.raw_view import SiteConfig
from copydesk.analytics.ingest.visitor_ids import Rotation, VisitorHasher
from copydesk.analytics.stores.base import Store
from copydesk.core.errors import StoreUnavailable
from copydesk.core.projects.collection_options import CollectionOptions
from copydesk.core.projects.projects import Project, Projects
from copydesk.core.projects.sealed_secrets import SealedSecrets
from copydesk.core.runtime.bounded_cache import BoundedCache

PROJECT_CACHE_SECONDS = 5
"""How long a site's project is cached."""
REQUEST_WAIT_SECONDS, COMMAND_WAIT_SECONDS = 2.0, 60.0
"""How long a request, and a CLI command, waits for running folds and changes of AI classes."""
MAX_CACHED_SITES = 10_000


class AiClassesChanging(StoreUnavailable):
    message = "The AI classes of this project are being changed. Try again shortly."


class SiteRegistry:
    def __init__(self, projects: Projects, secrets: SealedSecrets, data_folder: Path) -> None:
        self._projects = projects
        self._secrets = secrets
        self._ranges_path = ranges_file(data_folder)
        self._ai_classes_lock = threading.Lock()
        self._projects_by_site_id = BoundedCache[str, tuple[float, Project]](MAX_CACHED_SITES)
        self._sites = BoundedCache[str, tuple[CollectionOptions, Classifier, SiteConfig]](MAX_CACHED_SITES)
        self._applied_ai_classes: dict[str, tuple[str, ...]] = {}
        self._classifier: tuple[float, Classifier] | None = None

    def find_by_site_id(self, site_id: str) -> tuple[Project, SiteConfig]:
        """Returns the project and the configuration for the public site id. Raises SiteNotFound for an unknown id."""
        now = time.monotonic()
        expires_at, project = self._projects_by_site_id.get(site_id) or (0.0, None)
        if project is None or expires_at < now:
            project = self._projects.get_by_site_id(site_id)
            self._projects_by_site_id.store(site_id, (now + PROJECT_CACHE_SECONDS, project))
        return project, self.for_project(project)

    def for_project(self, project: Project) -> SiteConfig:
        options = project.collecting
        classifier = self.classifier
        cached = self._sites.get(project.id)
        if cached and cached[0] == options and cached[1] is classifier:
            return cached[2]
        secret = bytes.fromhex(self._secrets.get_or_create(project.id, "visitor_key"))
        hasher = VisitorHasher(project.id, secret, Rotation(options.privacy))
        site = SiteConfig(project.id, classifier, hasher, options.base_path, frozenset(options.page_parameters))
        self._sites.store(project.id, (options, classifier, site))
        return site

    def apply_ai_classes(self, project: Project, store: Store, timeout_seconds: float = REQUEST_WAIT_SECONDS) -> None:
        """Sets the project's AI classes in the store if they have changed. Raises AiClassesChanging on a timeout."""
        ai_classes = project.collecting.ai_classes
        if self._applied_ai_classes.get(project.id) == ai_classes:
            return
        if not self._ai_classes_lock.acquire(timeout=timeout_seconds):
            raise AiClassesChanging
        try:
            store.set_ai_classes(project.id, ai_classes, timeout_seconds)
            self._applied_ai_classes[project.id] = ai_classes
        finally:
            self._ai_classes_lock.release()

    @property
    def classifier(self) -> Classifier:
        """Returns the classifier. Rebuilds it when the file of IP ranges changes."""
        try:
            modified_at = self._ranges_path.stat().st_mtime
        except OSError:
            modified_at = 0.0
        if self._classifier is None or self._classifier[0] != modified_at:
            known_ranges = ip_ranges.IpRanges(ip_ranges.load_current_lists(self._ranges_path))
            self._classifier = modified_at, Classifier(load_agent_table(), known_ranges, load_crawler_list())
        return self._classifier[1]


def ranges_file(data_folder: Path) -> Path:
    """Returns the path of the refreshed IP ranges. Without this file, the ranges that Copydesk ships with apply."""
    return data_folder.absolute() / "ranges.json"
