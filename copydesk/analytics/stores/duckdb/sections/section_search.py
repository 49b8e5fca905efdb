"""Finds large projects, and their sections that are not in the index yet."""

import logging
import shutil
import time
from pathlib import Path

from copydesk.analytics.stores.base import MAX_SECTION_DEPTH
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.runs.open_run import get_run_folder
from copydesk.analytics.stores.duckdb.ids.large_projects import LargeProjects
from copydesk.analytics.stores.duckdb.ids.section_ids import count_deeper_sections
from copydesk.analytics.stores.duckdb.sql_files import load_sql

log = logging.getLogger(__name__)

MIN_LARGE_VIEWS = 250_000
"""A project with at least this many folded views is large. In a smaller one, the first report below a section is fast
without the index."""
SEARCHES_PER_MIN_VIEWS = 10
"""How often sections are searched while as many views are logged as make a project large."""
PAUSE_FACTOR = 50
"""After a search and the indexing of its sections, the next one waits for this multiple of the time that they took."""
MAX_PAUSE_SECONDS = 3600
FREE_DISK_FACTOR = 2
"""Indexing needs temporary files and more visits, so this multiple of the size of the visits must be free."""
SELECT_LARGE = """
    select projects.id, name
    from projects join counts on counts.project = projects.id and counts.scope = projects.site
    group by projects.id, name
    having sum(n) >= $min_views
"""


class SectionSearch:
    """Searches in the thread of the section indexer, at most so often that it costs little."""

    def __init__(self, database: DuckDatabase, min_views: int, large_projects: LargeProjects) -> None:
        """`min_views` are the views that make a project large."""
        self._database = database
        self._min_views = min_views
        self._large_projects = large_projects
        self._last_number = 0
        """The number of the last logged view, as of the last fold."""
        self._next_at = 0.0
        self._is_disk_reported = False

    def note_views(self, last_number: int) -> None:
        """Notes that views up to this number are logged and most of them folded."""
        self._last_number = last_number

    def is_due(self) -> bool:
        return self._large_projects.is_search_due(self._last_number) and time.monotonic() >= self._next_at

    def pause(self, worked_seconds: float) -> None:
        """Defers the next search after work that took this long."""
        self._next_at = time.monotonic() + min(PAUSE_FACTOR * worked_seconds, MAX_PAUSE_SECONDS)

    def find_sections(self, max_sections: int) -> dict[str, list[str]]:
        """Returns the sections of large projects that should be indexed, by the name of the project, as many as fit
        into the limit of each project. Outer sections are first, then those with the most views."""
        started_at = time.monotonic()
        last_number = self._last_number
        with self._database.read() as connection:
            projects = dict(connection.execute(SELECT_LARGE, {"min_views": self._min_views}).fetchall())
            self._large_projects.update(set(projects.values()))
            sections = {
                name: _list_unindexed_sections(connection, project_id, max_sections)
                for project_id, name in projects.items()
            }
        if any(sections.values()) and not self._has_free_disk():
            self.pause(MAX_PAUSE_SECONDS)
            return {}
        self.pause(time.monotonic() - started_at)
        next_number = last_number + max(1, self._min_views // SEARCHES_PER_MIN_VIEWS)
        self._large_projects.finish_search(last_number, next_number)
        return {name: names for name, names in sections.items() if names}

    def _has_free_disk(self) -> bool:
        """Returns whether indexing cannot fill the disk. Logs a warning the first time that it could."""
        path = self._database.path
        visits = sum(map(_measure_file, get_run_folder(path).glob("*")))
        free = shutil.disk_usage(path.parent).free
        has_enough = free >= FREE_DISK_FACTOR * visits
        if not has_enough and not self._is_disk_reported:
            message = "not indexing sections: %d MB are free on the disk, and %d MB are needed"
            log.warning(message, free // 1_000_000, FREE_DISK_FACTOR * visits // 1_000_000)
        self._is_disk_reported = not has_enough
        return has_enough


def _measure_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a merge has deleted it
        return 0


def _list_unindexed_sections(connection: DuckConnection, project_id: int, max_sections: int) -> list[str]:
    room = max_sections - count_deeper_sections(connection, project_id)
    if room <= 0:
        return []
    params = {"project": project_id, "max_depth": MAX_SECTION_DEPTH, "limit": room}
    return [section for (section,) in connection.execute(load_sql("unindexed_sections"), params).fetchall()]
