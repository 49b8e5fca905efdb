"""The state of a project that a transaction sees. What a report keeps in memory belongs to one."""

from dataclasses import dataclass

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.visitor_index import read_last_folded
from copydesk.analytics.stores.duckdb.log.view_changes import read_view_changes

SELECT_PROJECT = "select id, site, ai from projects where name = $name"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a project that a transaction sees."""

    project: int
    site: int
    ai_mask: int
    view_changes: int
    folded: int

    def is_part_of(self, later: "Snapshot") -> bool:
        """Returns whether both have the same views up to the last folded one of this snapshot."""
        is_same = (self.view_changes, self.ai_mask) == (later.view_changes, later.ai_mask)
        return is_same and self.folded <= later.folded


def read_snapshot(connection: DuckConnection, project_id: str) -> Snapshot | None:
    """Returns the state of a project, or None if it has no views."""
    found = connection.execute(SELECT_PROJECT, {"name": project_id}).fetchall()
    if not found:
        return None
    [(project, site, ai_mask)] = found
    return Snapshot(project, site, ai_mask, read_view_changes(connection), read_last_folded(connection))
