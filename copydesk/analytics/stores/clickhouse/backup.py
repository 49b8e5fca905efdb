"""Backup and restore of a store as one zip archive: each table in ClickHouse's Native format, and metadata of the main
database."""

import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import IO, Any, cast

from sqlalchemy import delete

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import Node, split_into_chunks
from copydesk.analytics.stores.clickhouse.folding.apply_plan import count_inbox_rows
from copydesk.analytics.stores.clickhouse.folding.batches import ViewBatches, set_ai_mask
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLease, ShardLeases
from copydesk.analytics.stores.clickhouse.folding.visitor_index import resume_plan
from copydesk.analytics.stores.clickhouse.schema import CLICKHOUSE_SCHEMA_VERSION
from copydesk.analytics.tables import view_batches, view_classes
from copydesk.core.errors import UserFacingError

BACKUP_TABLES = ("views", "events", "scopes", "visits", "firsts", "counts", "missing_referrers")
METADATA_FILE = "agreed.json"
SELECT_PENDING_VIEWS = "select * from inbox where batch in {batches:Array(UInt128)}"
RESTORE_SETTINGS = {"distributed_foreground_insert": 1, "insert_quorum": "auto"}
"""With these settings, an insert returns once its rows are on most replicas of their shards."""
BUFFER_BYTES = 1 << 20


class StoreNotEmpty(UserFacingError):
    message = "The analytics store already has views. Restore the backup into an empty store."


class InvalidStoreBackup(UserFacingError):
    message = "This is not a backup of an analytics store, or a newer version of Copydesk wrote it."


def back_up(cluster: Cluster, batches: ViewBatches, shard_leases: ShardLeases, target: Path) -> None:
    """Writes a consistent backup. Blocks folds; views that are logged meanwhile are not included."""
    unfinished = target.with_name(f"{target.name}.unfinished")
    with shard_leases.acquire(range(len(cluster.shards))) as leases:
        shards = _resume_shards(cluster, batches, leases)
        pending = sorted(batches.read_timed_snapshot()[1].pending_ids)
        metadata = {
            "schema": CLICKHOUSE_SCHEMA_VERSION,
            "classes": batches.read_ai_masks(),
            "batches": [f"{batch:032x}" for batch in pending],
        }
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(METADATA_FILE, json.dumps(metadata))
            for table in (*BACKUP_TABLES, "inbox"):
                query = SELECT_PENDING_VIEWS if table == "inbox" else f"select * from {table}"  # noqa: S608 - ours
                with archive.open(table, "w", force_zip64=True) as entry:
                    for shard, chunk in product(shards, split_into_chunks(pending if table == "inbox" else [])):
                        stream = cast(IO[bytes], shard.get_client().raw_stream(query, {"batches": chunk}, fmt="Native"))
                        shutil.copyfileobj(stream, entry, BUFFER_BYTES)
        for lease in leases:
            lease.renew()
        unfinished.replace(target)


def restore(cluster: Cluster, batches: ViewBatches, shard_leases: ShardLeases, source: Path) -> None:
    """Restores a backup into an empty store."""
    client = cluster.reader.get_client()
    with shard_leases.acquire(range(len(cluster.shards))) as leases, _open_archive(source) as archive:
        metadata = _read_metadata(archive)
        _resume_shards(cluster, batches, leases)
        for table in BACKUP_TABLES:
            if cluster.reader.query(f"select 1 from {table} limit 1"):  # noqa: S608 - ours
                raise StoreNotEmpty
        for table in (*BACKUP_TABLES, "inbox"):
            if not archive.getinfo(table).file_size:
                continue
            with archive.open(table) as entry:
                client.raw_insert(
                    table, insert_block=cast(Any, _read_chunks(entry)), settings=RESTORE_SETTINGS, fmt="Native"
                )
        batch_ids = [int(batch, 16) for batch in metadata["batches"]]
        row_counts = [count_inbox_rows(cluster.pin_synced_replica(shard), batch_ids) for shard in cluster.shards]
        with batches.database.write() as tx:
            for lease in leases:
                lease.renew_in(tx)
            tx.execute(delete(view_batches))
            tx.execute(delete(view_classes))
            for batch in batch_ids:
                rows = {shard: rows[batch] for shard, rows in enumerate(row_counts) if rows[batch]}
                batches.add_batch(tx, batches.allocate_number(tx), batch, rows)
            for project, ai_mask in metadata["classes"].items():
                set_ai_mask(tx, project, ai_mask)


def _resume_shards(cluster: Cluster, batches: ViewBatches, leases: Sequence[ShardLease]) -> list[Node]:
    """Applies plans that are committed and not yet applied. Returns one synchronized replica per shard."""
    shards = [cluster.pin_synced_replica(shard) for shard in cluster.shards]
    for shard, lease in zip(shards, leases, strict=True):
        resume_plan(shard, batches, lease)
    return shards


def _open_archive(source: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source)
    except zipfile.BadZipFile:
        raise InvalidStoreBackup from None


def _read_metadata(archive: zipfile.ZipFile) -> dict[str, Any]:
    if not {METADATA_FILE, "inbox", *BACKUP_TABLES} <= {*archive.namelist()}:
        raise InvalidStoreBackup
    metadata: dict[str, Any] = json.loads(archive.read(METADATA_FILE))
    if metadata["schema"] > CLICKHOUSE_SCHEMA_VERSION:
        raise InvalidStoreBackup
    return metadata


def _read_chunks(entry: IO[bytes]) -> Iterator[bytes]:
    while chunk := entry.read(BUFFER_BYTES):
        yield chunk
