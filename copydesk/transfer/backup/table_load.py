"""The files of a back-up become the tables of a database, which are then brought up as those of any older release."""

from pathlib import Path

from sqlalchemy import Connection, delete, text

from copydesk.analytics.tables import view_batches, view_classes, view_folds
from copydesk.core.db.migrate import bring_up
from copydesk.transfer.backup import table_dump as dump
from copydesk.transfer.backup.manifest import Damaged, Manifest
from copydesk.transfer.progress import Progress
from copydesk.transfer.row_codec import AT_ONCE, TABLES, Lines, tally
from copydesk.transfer.table_contents import drop_tables, parts

RELEASE_RUNS = text("update runs set lease_until = 0, released_at = 0 where state = 'running'")
"""The workers that held these runs are gone; a released run does not count as a crash."""
AGREED = (view_batches, view_classes, view_folds)
"""What stores of views on several machines agreed on holds for the old one alone: a copy of it has its own."""


def load(tx: Connection, source: Path, manifest: Manifest, progress: Progress) -> None:
    """In place of whatever is there, and compared with what was written once it is in."""
    drop_tables(tx)
    bring_up(tx, manifest.schema_version)
    for name, table in TABLES.items():
        if (wanted := manifest.tables.get(name)) is None:
            continue
        progress.begin(name, wanted.rows)
        lines = Lines(table, wanted.columns)
        for part in parts(dump.read(source, name, wanted), AT_ONCE):
            lines.insert(tx, map(lines.row, part))
            progress.advance(len(part))
        found = tally(tx, lines)
        if (found.rows, found.checksum) != (wanted.rows, wanted.checksum):
            raise Damaged(f"The table {name} is not in the database as it was written to {source}.")
    bring_up(tx)
    tx.execute(RELEASE_RUNS)
    for agreed in AGREED:
        tx.execute(delete(agreed))
