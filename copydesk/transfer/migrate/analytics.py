"""The embedded views go to ClickHouse, in parts: killed at any moment, it goes on where it was."""

from pathlib import Path

from sqlalchemy import delete, insert, select

from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster, cluster_at
from copydesk.analytics.stores.clickhouse.connection.node import Node
from copydesk.analytics.stores.clickhouse.connection.url import address_of
from copydesk.analytics.stores.clickhouse.folding.batches import AI_BY_DEFAULT, choose
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import Connection
from copydesk.analytics.stores.duckdb.database import Database as Embedded
from copydesk.analytics.stores.shared.server import FILE
from copydesk.analytics.tables import view_marks
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.transfer.backup.analytics_copy import rows_of
from copydesk.transfer.clickhouse_target import is_target_empty, require_empty_target
from copydesk.transfer.errors import CannotMove
from copydesk.transfer.exclusive_access import analytics_alone
from copydesk.transfer.migrate.analytics_tables import KINDS, PART, sql
from copydesk.transfer.progress import Progress
from copydesk.transfer.table_contents import parts

NAMES_AT_ONCE = 100
MARK = "moved_"
"""How many parts of a table are over, among the marks in the main database; gone when all is done."""
BEGUN = "begun"


def move_views(data: Path, url: str, database: Database, progress: Progress) -> dict[str, int]:
    """From the folder's file to ClickHouse, beside the new main database; the index of visitors is made there anew. The
    rows of each table, once they are the same on both sides."""
    _refuse_missing(data)
    cluster = cluster_at(address_of(url))
    with analytics_alone(data):
        progress.begin("counting what has arrived")
        embedded = DuckStore(data / FILE)
        embedded.fold()
        embedded.close()
        store, file = ClickHouseStore(url, database, cluster), Embedded(data / FILE)
        try:
            store.fold()  # makes the tables
            with file.write() as here:  # only a temporary one
                _copy(here, cluster, database, progress)
                _choose(here, database)
                progress.begin("making the index of visitors")
                store.rebuild()
                return _compared(here, cluster.reader, database, progress)
        finally:
            file.close()
            store.close()


def check_views(data: Path, url: str) -> dict[str, int]:
    """Whether they could be moved: nobody at the file, and ClickHouse there and empty. The rows of each table."""
    _refuse_missing(data)
    cluster = cluster_at(address_of(url))
    try:
        with analytics_alone(data):
            require_empty_target(cluster)
            _, counts = rows_of(data / FILE)
            return {kind.name: counts[kind.name] for kind in KINDS}
    finally:
        cluster.close()


def _refuse_missing(data: Path) -> None:
    if not (data / FILE).exists():
        raise CannotMove(f"There are no views to move in {data}.")


def _copy(here: Connection, cluster: Cluster, database: Database, progress: Progress) -> None:
    """An insert that is repeated, because its mark was not made, is known by its token. Where parts are said to be over
    and nothing is there, it was emptied to begin anew, or is another one."""
    over = _marks(database)
    if not over:
        require_empty_target(cluster)
    if not over or is_target_empty(cluster):
        over = _begin(database)
    _name(here, cluster.reader)
    for kind in KINDS:
        begun, end = over.get(kind.name, 0), kind.parts(here)
        progress.begin(kind.name, end * PART)
        progress.advance(begun * PART)
        for number in range(begun, end):
            for shard, columns in kind.part(here, number, len(cluster.shards)):
                token = f"{MARK}{over[BEGUN]}-{kind.name}-{number}-{shard}"
                cluster.shards[shard].put(kind.name, columns, list(kind.columns.values()), token)
            _mark(database, kind.name, number + 1)
            progress.advance(PART)


def _name(here: Connection, reader: Node) -> None:
    """What ClickHouse calls every page, site and agent."""
    here.execute("create or replace temp table hashes (id integer not null, hash ubigint not null)")
    named = (
        "select scopes.id, sort, name, path, agent, operator, kind from scopes join projects on projects.id = project"
    )
    for some in parts(here.execute(named).fetchall(), NAMES_AT_ONCE):
        ids, sorts, projects, paths, agents, operators, kinds = map(list, zip(*some, strict=True))
        given = {"projects": projects, "paths": paths, "agents": agents, "operators": operators, "kinds": kinds}
        [by_sort] = reader.ask(sql("hashes"), given)
        rows = [(scope, by_sort[sort][place]) for place, (scope, sort) in enumerate(zip(ids, sorts, strict=True))]
        here.executemany("insert into hashes values ($1, $2)", rows)


def _choose(here: Connection, database: Database) -> None:
    chosen = here.execute("select name, ai from projects where ai <> $1", [AI_BY_DEFAULT]).fetchall()
    with database.write() as tx:
        for project, ai in chosen:
            choose(tx, project, ai)


def _compared(here: Connection, reader: Node, database: Database, progress: Progress) -> dict[str, int]:
    found = {}
    for kind in KINDS:
        progress.begin(f"comparing {kind.name}")
        near, far = kind.sum_here(here), kind.sum_there(reader)
        if near != far:
            raise CannotMove(
                f"The {kind.name} are not the same on both sides ({near[0]:,} rows, and {far[0]:,}): something has"
                " changed since the move began. Empty the database in ClickHouse, and begin anew."
            )
        found[kind.name] = near[0]
    with database.write() as tx:
        tx.execute(delete(view_marks).where(view_marks.c.name.startswith(MARK)))
    return found


def _begin(database: Database) -> dict[str, int]:
    """When it began is in the tokens: ClickHouse may still know those of an earlier attempt that was given up."""
    begun = clock.now()
    with database.write() as tx:
        tx.execute(delete(view_marks).where(view_marks.c.name.startswith(MARK)))
        tx.execute(insert(view_marks).values(name=MARK + BEGUN, value=begun))
    return {BEGUN: begun}


def _marks(database: Database) -> dict[str, int]:
    with database.read() as tx:
        found = tx.execute(select(view_marks).where(view_marks.c.name.startswith(MARK)))
        return {row.name.removeprefix(MARK): row.value for row in found}


def _mark(database: Database, name: str, value: int) -> None:
    with database.write() as tx:
        tx.execute(delete(view_marks).where(view_marks.c.name == MARK + name))
        tx.execute(insert(view_marks).values(name=MARK + name, value=value))
