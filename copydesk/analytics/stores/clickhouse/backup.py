"""A copy of everything in one archive: each table as ClickHouse's Native format writes it, and what was agreed on."""

import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import IO, Any, cast

from sqlalchemy import delete

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import Node, pieces
from copydesk.analytics.stores.clickhouse.folding.apply_plan import count
from copydesk.analytics.stores.clickhouse.folding.batches import Batches, choose
from copydesk.analytics.stores.clickhouse.folding.fold import resume
from copydesk.analytics.stores.clickhouse.folding.shard_lease import Turn, Turns
from copydesk.analytics.stores.clickhouse.schema import NUMBER
from copydesk.analytics.tables import view_batches, view_classes
from copydesk.core.errors import Explained

TABLES = ("views", "events", "scopes", "visits", "firsts", "counts")
AGREED = "agreed.json"
WAITING = "select * from inbox where batch in {batches:Array(UInt128)}"
SPREADING = {"distributed_foreground_insert": 1, "insert_quorum": "auto"}
"""Rows are on most replicas of their shards when an insert returns."""
BUFFER = 1 << 20


class NotEmpty(Explained):
    message = "The analytics store already holds views; a copy can only be loaded into an empty store."


class NotACopy(Explained):
    message = "This is not a copy of an analytics store, or a newer version of Copydesk wrote it."


def back_up(cluster: Cluster, batches: Batches, turns: Turns, target: Path) -> None:
    """As of one moment: nothing is counted meanwhile, and what is logged meanwhile is not in it."""
    unfinished = target.with_name(f"{target.name}.unfinished")
    with turns.of(range(len(cluster.shards))) as taken:
        shards = _resumed(cluster, batches, taken)
        waiting = sorted(batches.moment()[1].batches)
        agreed = {"schema": NUMBER, "classes": batches.masks(), "batches": [f"{batch:032x}" for batch in waiting]}
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(AGREED, json.dumps(agreed))
            for table in (*TABLES, "inbox"):
                query = WAITING if table == "inbox" else f"select * from {table}"  # noqa: S608 - ours
                with archive.open(table, "w", force_zip64=True) as entry:
                    for shard, some in product(shards, pieces(waiting if table == "inbox" else [])):
                        stream = cast(IO[bytes], shard.client().raw_stream(query, {"batches": some}, fmt="Native"))
                        shutil.copyfileobj(stream, entry, BUFFER)
        for turn in taken:
            turn.hold()
        unfinished.replace(target)


def restore(cluster: Cluster, batches: Batches, turns: Turns, source: Path) -> None:
    client = cluster.reader.client()
    with turns.of(range(len(cluster.shards))) as taken, _opened(source) as archive:
        agreed = _agreed(archive)
        _resumed(cluster, batches, taken)
        for table in TABLES:
            if cluster.reader.ask(f"select 1 from {table} limit 1"):  # noqa: S608 - ours
                raise NotEmpty
        for table in (*TABLES, "inbox"):
            if not archive.getinfo(table).file_size:
                continue
            with archive.open(table) as entry:
                client.raw_insert(table, insert_block=cast(Any, _chunks(entry)), settings=SPREADING, fmt="Native")
        ids = [int(batch, 16) for batch in agreed["batches"]]
        found = [count(cluster.catch_up(shard), ids) for shard in cluster.shards]
        with batches.database.write() as tx:
            for turn in taken:
                turn.hold_in(tx)
            tx.execute(delete(view_batches))
            tx.execute(delete(view_classes))
            for batch in ids:
                rows = {shard: rows[batch] for shard, rows in enumerate(found) if rows[batch]}
                batches.add(tx, batches.number(tx), batch, rows)
            for project, ai in agreed["classes"].items():
                choose(tx, project, ai)


def _resumed(cluster: Cluster, batches: Batches, turns: Sequence[Turn]) -> list[Node]:
    """What the shards are read from, with nothing left to carry out."""
    shards = [cluster.catch_up(shard) for shard in cluster.shards]
    for shard, turn in zip(shards, turns, strict=True):
        resume(shard, batches, turn)
    return shards


def _opened(source: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source)
    except zipfile.BadZipFile:
        raise NotACopy from None


def _agreed(archive: zipfile.ZipFile) -> dict[str, Any]:
    if AGREED not in archive.namelist():
        raise NotACopy
    agreed: dict[str, Any] = json.loads(archive.read(AGREED))
    if agreed["schema"] > NUMBER:
        raise NotACopy
    return agreed


def _chunks(entry: IO[bytes]) -> Iterator[bytes]:
    while chunk := entry.read(BUFFER):
        yield chunk
