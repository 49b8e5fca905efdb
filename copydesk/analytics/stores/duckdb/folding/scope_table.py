"""The scopes as arrays by id: whose they are, how a visit's key is made, and what counts there as human and as AI."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.id_tables import AGENT_SCOPE, MISSING_AGENT_SCOPE, MISSING_SCOPE

Item = TypeVar("Item", bound=np.generic)
HUMAN_BIT = 1
ALL_CLASS_BITS = 31
SELECT_NEW_SCOPES = """
    select scopes.id as id, scopes.project as project, sort, salt, site, ai
    from scopes join projects on projects.id = scopes.project
    where scopes.id > $last
"""


class ScopeTable:
    """A cache of the scopes, as of the last call of `load_new`. Discarded when scopes or classes change."""

    def __init__(self) -> None:
        self.project = np.empty(0, np.int32)
        self.is_agent = np.empty(0, np.bool_)
        self.is_missing = np.empty(0, np.bool_)
        """Whether the scope is a missing page, or an agent of requests for missing pages, which is not counted."""
        self.salt = np.empty(0, np.int64)
        self.site = np.empty(0, np.int32)
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
        self.ai = _grow(self.ai, size, rows["id"], rows["ai"])


def _grow(column: NDArray[Item], size: int, ids: NDArray[np.int32], values: NDArray[Any]) -> NDArray[Item]:
    grown = np.zeros(max(size, len(column)), column.dtype)
    grown[: len(column)] = column
    grown[ids] = values
    return grown
