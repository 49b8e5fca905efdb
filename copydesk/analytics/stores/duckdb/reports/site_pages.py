"""The pages of a site, in memory."""

from dataclasses import dataclass, replace

import numpy as np

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.visit_rows import NO_POSITIONS, Positions, Scopes

ESTIMATE_BYTES = """
    select coalesce(sum(strlen(path) + $page_bytes), 0)::bigint from scopes where project = $project and sort < 2
"""
PAGE_BYTES = 100
"""About what a page needs in memory besides its path."""
SELECT_NEW_PAGES = """
    select id, path, sort from scopes where project = $project and sort < 2 and id > $upto order by id
"""


@dataclass(frozen=True, slots=True)
class SitePages:
    """A site and its pages."""

    ids: Scopes
    """The scopes of the site and its pages, sorted."""
    paths: list[str]
    by_path: Positions
    """The positions of the pages in the order of their paths. The site is not one of them."""
    upto: int
    """All pages with an id up to this one are here."""
    memory_bytes: int
    """About how much memory they need."""

    def __len__(self) -> int:
        return len(self.ids)


NO_PAGES = SitePages(np.empty(0, np.int32), [], NO_POSITIONS, 0, 0)


def estimate_memory(connection: DuckConnection, project: int) -> int:
    """Returns about how many bytes of memory the pages of a site need."""
    params = {"project": project, "page_bytes": PAGE_BYTES}
    [(memory_bytes,)] = connection.execute(ESTIMATE_BYTES, params).fetchall()
    return int(memory_bytes)


def load_new_pages(connection: DuckConnection, project: int, known: SitePages, upto: int) -> SitePages:
    """Returns the known pages and newer ones. All scopes up to this id must be visible in the transaction."""
    new_rows = connection.execute(SELECT_NEW_PAGES, {"project": project, "upto": known.upto}).fetchall()
    upto = max(upto, known.upto, *(scope for scope, _, _ in new_rows))
    if not new_rows:
        return replace(known, upto=upto)
    ids = np.concatenate((known.ids, np.array([scope for scope, _, _ in new_rows], np.int32)))
    paths = known.paths + [path for _, path, _ in new_rows]
    new_positions = [position for position, (_, _, sort) in enumerate(new_rows, len(known)) if sort == 0]
    by_path = sorted([*known.by_path.tolist(), *new_positions], key=paths.__getitem__)
    memory_bytes = known.memory_bytes + sum(len(path.encode()) + PAGE_BYTES for _, path, _ in new_rows)
    return SitePages(ids, paths, np.array(by_path, np.int64), upto, memory_bytes)
