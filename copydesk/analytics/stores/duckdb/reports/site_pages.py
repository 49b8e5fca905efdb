"""The pages of a site, in memory."""

from dataclasses import dataclass

import numpy as np

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.visit_rows import NO_POSITIONS, Positions, Scopes

COUNT_PAGES = "select count(*) from scopes where project = $project and sort = 0"
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

    def __len__(self) -> int:
        return len(self.ids)


NO_PAGES = SitePages(np.empty(0, np.int32), [], NO_POSITIONS, 0)


def count_pages(connection: DuckConnection, project: int) -> int:
    [(page_count,)] = connection.execute(COUNT_PAGES, {"project": project}).fetchall()
    return int(page_count)


def load_new_pages(connection: DuckConnection, project: int, known: SitePages, upto: int) -> SitePages:
    """Returns the known pages and newer ones. All scopes up to this id must be visible in the transaction."""
    new_rows = connection.execute(SELECT_NEW_PAGES, {"project": project, "upto": known.upto}).fetchall()
    upto = max(upto, known.upto, *(scope for scope, _, _ in new_rows))
    if not new_rows:
        return SitePages(known.ids, known.paths, known.by_path, upto)
    ids = np.concatenate((known.ids, np.array([scope for scope, _, _ in new_rows], np.int32)))
    paths = known.paths + [path for _, path, _ in new_rows]
    new_positions = [position for position, (_, _, sort) in enumerate(new_rows, len(known)) if sort == 0]
    by_path = sorted([*known.by_path.tolist(), *new_positions], key=paths.__getitem__)
    return SitePages(ids, paths, np.array(by_path, np.int64), upto)
