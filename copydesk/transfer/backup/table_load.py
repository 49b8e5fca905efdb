"""Loads the files of a backup into a database."""

from pathlib import Path

from sqlalchemy import Connection, delete, text

from copydesk.analytics.tables import view_batches, view_classes, view_folds
from copydesk.core.db.migrate import upgrade_schema
from copydesk.core.runtime.batches import split_into_batches
from copydesk.transfer.backup import table_dump
from copydesk.transfer.backup.manifest import BackupDamaged, Manifest
from copydesk.transfer.progress import Progress
from copydesk.transfer.row_codec import ROWS_PER_BATCH, TABLES, RowCodec, compute_digest
from copydesk.transfer.table_contents import drop_tables

RELEASE_RUNS = text("update runs set lease_until = 0, released_at = 0 where state = 'running'")
"""The workers that held these runs are gone. Releasing a run keeps it from counting as a crash."""
VIEW_STATE_TABLES = (view_batches, view_classes, view_folds)
"""State that the processes of an analytics store share. It is valid only for the original store, not for a copy."""


def load_tables(tx: Connection, source: Path, manifest: Manifest, progress: Progress) -> None:
    """Replaces all tables with those of the backup, and verifies each table after loading it."""
    drop_tables(tx)
    upgrade_schema(tx)
    for name, table in TABLES.items():
        expected = manifest.tables[name]
        progress.start_stage(name, expected.rows)
        codec = RowCodec(table)
        for batch in split_into_batches(table_dump.read_lines(source, name, expected), ROWS_PER_BATCH):
            codec.insert_rows(tx, map(codec.decode_row, batch))
            progress.advance(len(batch))
        digest = compute_digest(tx, codec)
        if (digest.rows, digest.checksum) != (expected.rows, expected.checksum):
            raise BackupDamaged(f"The table {name} differs from the backup in {source} after loading.")
    tx.execute(RELEASE_RUNS)
    for state_table in VIEW_STATE_TABLES:
        tx.execute(delete(state_table))
