"""The tables of readers' feedback, and of what stores on several machines agree on. The views are not here."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from copydesk.core.db.tables import metadata

feedback = Table(
    "feedback",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("path", Text, nullable=False),
    Column("helpful", Boolean),
    Column("comment", Text),
    Column("created_at", BigInteger, nullable=False),
    Index(None, "project_id", "id"),
)

view_batches = Table(
    "view_batches",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("batch", String(32), nullable=False),
    Column("rows", Integer, nullable=False),
    Column("fold", BigInteger),
    Index(None, "shard", "number"),
    sqlite_with_rowid=False,
)
"""Batches of views that were logged and are not counted yet; without its row here, a batch does not exist."""

view_folds = Table(
    "view_folds",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
    Column("holder", String(40)),
    Column("until", BigInteger, nullable=False),
    Column("decided", Text),
    sqlite_with_rowid=False,
)
"""Whose turn it is to change a shard's numbers, until when, and what was decided and must be carried out."""

view_marks = Table(
    "view_marks",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""The number of the last batch."""

view_classes = Table(
    "view_classes",
    metadata,
    Column("project_id", String(40), primary_key=True),
    Column("ai", Integer, nullable=False),
    sqlite_with_rowid=False,
)
"""Which classes count as AI, a bit each, in projects that chose."""
