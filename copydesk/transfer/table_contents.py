"""Functions for all tables of a database: describe their contents, and drop them."""

from sqlalchemy import Connection, func, inspect, select, text

from copydesk.core.text.plurals import pluralize
from copydesk.transfer.row_codec import TABLES

CONTENT_NOUNS = {
    "projects": ("project", "projects"),
    "people": ("person", "people"),
    "jobs": ("job", "jobs"),
    "feedback": ("feedback entry", "feedback entries"),
    "searches": ("search", "searches"),
    "conversations": ("question", "questions"),
}
"""The noun for a row of each table, and its plural."""


def describe_contents(tx: Connection) -> str:
    """Describes what the database holds ("3 projects, 12 jobs"), or returns "" if it holds nothing worth keeping.

    A database that was only started once has rows too, but none in these tables."""
    existing = set(inspect(tx).get_table_names())
    counts = {
        nouns: tx.execute(select(func.count()).select_from(TABLES[name])).scalar_one()
        for name, nouns in CONTENT_NOUNS.items()
        if name in existing
    }
    return ", ".join(pluralize(count, *nouns) for nouns, count in counts.items() if count)


def drop_tables(tx: Connection) -> None:
    """Drops all tables of Copydesk, including those of an unfinished move."""
    for table in reversed(TABLES.values()):
        table.drop(tx, checkfirst=True)
    for name in ("moving", "alembic_version"):
        tx.execute(text(f"drop table if exists {name}"))
