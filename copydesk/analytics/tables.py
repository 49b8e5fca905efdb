"""The table of readers' feedback. Views are not here: the analytics store has them."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, String, Table, Text

from copydesk.core.tables import metadata

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
