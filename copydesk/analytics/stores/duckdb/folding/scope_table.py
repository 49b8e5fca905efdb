"""The scopes as arrays by id: whose they are, how a visit's key is made, and what counts there as human and as AI."""

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.ids.scopes import (
    AGENT_SCOPE,
    MISSING_AGENT_SCOPE,
    MISSING_SCOPE,
    SECTION_SCOPE,
    SOURCE_KIND_SCOPE,
)

Item = TypeVar("Item", bound=np.generic)
HUMAN_BIT = 1
ALL_CLASS_BITS = 31
SELECT_NEW_SCOPES = """
    select scopes.id as id, scopes.project as project, sort, salt, site, ai, kind, section
    from scopes join projects on projects.id = scopes.project
    where scopes.id > $last
"""


class ScopeTable:
    """A cache of the scopes, as of the last call of `load_new`. Discarded when stored scopes or classes change."""

    def __init__(self) -> None:
        self.project = np.empty(0, np.int32)
        self.is_agent = np.empty(0, np.bool_)
        self.is_of_site = np.empty(0, np.bool_)
        """Whether visits of the scope have the keys of their site, as those of agents, sections and sources."""
        self.is_missing = np.empty(0, np.bool_)
        """Whether the scope is a missing page, or an agent of requests for missing pages, which is not counted."""
        self.salt = np.empty(0, np.int64)
        self.site = np.empty(0, np.int32)
        self.parent = np.empty(0, np.int32)
        """The scope that a visit counts for too: the site of an agent, the kind of a referring host; 0 means none."""
        self.section = np.empty(0, np.int32)
        """The innermost section of a page, or the section around a section; 0 means none."""
        self._kinds: dict[tuple[int, int], int] = {}
        """The kinds of sources, by project and number."""
        self.ai = np.empty(0, np.uint8)
        """The bits of the classes that count as AI in the scope's project."""

    def load_new(self, connection: DuckConnection) -> None:
        """Loads the scopes that were created since the last call."""
        known = len(self.salt)
        rows = connection.execute(SELECT_NEW_SCOPES, {"last": max(known - 1, 0)}).fetchnumpy()
        if not len(rows["id"]):
            return
        size = int(rows["id"].max()) + 1
        self.project = _grow(self.project, size, rows["id"], rows["project"])
        self.is_agent = _grow(self.is_agent, size, rows["id"], rows["sort"] == AGENT_SCOPE)
        is_missing = (rows["sort"] == MISSING_SCOPE) | (rows["sort"] == MISSING_AGENT_SCOPE)
        self.is_missing = _grow(self.is_missing, size, rows["id"], is_missing)
        self.salt = _grow(self.salt, size, rows["id"], rows["salt"])
        self.site = _grow(self.site, size, rows["id"], rows["site"])
        self.is_of_site = self.salt == self.salt[self.site]
        self.parent = _grow(self.parent, size, rows["id"], self._find_parents(rows))
        self.section = _grow(self.section, size, rows["id"], rows["section"])
        self.ai = _grow(self.ai, size, rows["id"], rows["ai"])

    def list_sections(self, pages: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
        """Yields the innermost section of each page, then the section around it, and so on; 0 means none."""
        section = self.section[pages]
        while section.any():
            yield section
            section = self.section[section]

    def _find_parents(self, rows: dict[str, NDArray[Any]]) -> NDArray[np.int32]:
        sort = rows["sort"]
        for row in np.flatnonzero(sort == SOURCE_KIND_SCOPE):
            self._kinds[int(rows["project"][row]), int(rows["kind"][row])] = int(rows["id"][row])
        parents: NDArray[np.int32] = np.where(sort == AGENT_SCOPE, rows["site"], 0).astype(np.int32)
        for row in np.flatnonzero((sort > SOURCE_KIND_SCOPE) & (sort < SECTION_SCOPE)):
            parents[row] = self._kinds[int(rows["project"][row]), int(rows["kind"][row])]
        return parents


def _grow(column: NDArray[Item], size: int, ids: NDArray[np.int32], values: NDArray[Any]) -> NDArray[Item]:
    grown = np.zeros(max(size, len(column)), column.dtype)
    grown[: len(column)] = column
    grown[ids] = values
    return grown
