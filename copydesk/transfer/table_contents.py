"""Functions for all tables of a database: describe their contents, and drop them."""

from sqlalchemy import Connection, func, inspect, select, text

from copydesk.transfer.row_codec import TABLES

CONTENT_LABELS = {
    "projects": "projects",
    "people": "people",
    "jobs": "jobs",
    "feedback": "feedback entries",
    "searches": "searches",
    "conversations": "questions",
}


def describe_contents(tx: Connection) -> str:
    """Describes what the database holds ("3 projects, 12 jobs"), or returns "" if it holds nothing worth keeping.

    A database that was only started once has rows too, but none in these tables."""
    existing = set(inspect(tx).get_table_names())
    counts = {
        label: tx.execute(select(func.count()).select_from(TABLES[name])).scalar_one()
        for name, label in CONTENT_LABELS.items()
        if name in existing
    }
    return ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)


def drop_tables(tx: Connection) -> None:
    """Drops all tables of Copydesk, including those of an older schema or an unfinished move."""
    for table in reversed(TABLES.values()):
        table.drop(tx, checkfirst=True)
    for name in ("moving", "alembic_version"):
        tx.execute(text(f"drop table if exists {name}"))
