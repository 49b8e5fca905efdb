"""The files of a back-up become the tables of a database, which are then brought up as those of any older release."""

from pathlib import Path

from sqlalchemy import Connection, delete, text

from copydesk.analytics.tables import view_batches, view_classes, view_folds
from copydesk.core.db.migrate import upgrade_schema
from copydesk.transfer.backup import table_dump
from copydesk.transfer.backup.manifest import BackupDamaged, Manifest
from copydesk.transfer.progress import Progress
from copydesk.transfer.row_codec import ROWS_PER_BATCH, TABLES, RowCodec, compute_digest
from copydesk.transfer.table_contents import drop_tables, split_into_batches

RELEASE_RUNS = text("update runs set lease_until = 0, released_at = 0 where state = 'running'")
"""The workers that held these runs are gone; a released run does not count as a crash."""
VIEW_STATE_TABLES = (view_batches, view_classes, view_folds)
"""What stores of views on several machines agreed on holds for the old one alone: a copy of it has its own."""


def load_tables(tx: Connection, source: Path, manifest: Manifest, progress: Progress) -> None:
    """In place of whatever is there, and compared with what was written once it is in."""
    drop_tables(tx)
    upgrade_schema(tx, manifest.schema_version)
    for name, table in TABLES.items():
        if (expected := manifest.tables.get(name)) is None:
            continue
        progress.start_stage(name, expected.rows)
        codec = RowCodec(table, expected.columns)
        for batch in split_into_batches(table_dump.read_lines(source, name, expected), ROWS_PER_BATCH):
            codec.insert_rows(tx, map(codec.decode_row, batch))
            progress.advance(len(batch))
        digest = compute_digest(tx, codec)
        if (digest.rows, digest.checksum) != (expected.rows, expected.checksum):
            raise BackupDamaged(f"The table {name} is not in the database as it was written to {source}.")
    upgrade_schema(tx)
    tx.execute(RELEASE_RUNS)
    for state_table in VIEW_STATE_TABLES:
        tx.execute(delete(state_table))
