"""The state of a project that a transaction sees. What a report stores or keeps in memory belongs to one."""

from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.last_folded import read_last_folded
from copydesk.analytics.stores.duckdb.log.view_changes import read_view_changes

SELECT_PROJECTS = "select id, site, ai from projects where list_contains($names, name)"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a project that a transaction sees."""

    project: int
    site: int
    ai_mask: int
    view_changes: int
    folded: int

    def is_part_of(self, later: "Snapshot") -> bool:
        """Returns whether a later state of the project has the same views up to the last folded one of this state."""
        is_same = (self.view_changes, self.ai_mask) == (later.view_changes, later.ai_mask)
        return is_same and self.folded <= later.folded


def load_snapshots(connection: DuckConnection, projects: Sequence[str]) -> list[Snapshot]:
    """Returns the states of the projects that are known."""
    rows = connection.execute(SELECT_PROJECTS, {"names": list(projects)}).fetchall()
    if not rows:
        return []
    view_changes, folded = read_view_changes(connection), read_last_folded(connection)
    return [Snapshot(project, site, ai_mask, view_changes, folded) for project, site, ai_mask in rows]
