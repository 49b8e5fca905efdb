"""Creates the tables of interactions, imported history, and the coordination of ClickHouse stores."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Text


def create_tables() -> None:
    op.create_table(
        "feedback",
        Column("id", String(40), primary_key=True),
        Column("project_id", String(40), ForeignKey("projects.id"), nullable=False),
        Column("path", Text, nullable=False),
        Column("helpful", Boolean),
        Column("comment", Text),
        Column("created_at", BigInteger, nullable=False),
        Column("source", String(20), nullable=False),
        Column("status", String(20), nullable=False),
        Column("contact", Text),
        Column("code", Text),
        Column("filename", Text),
        Column("lang", Text),
        Column("visitor", BigInteger),
        Column("event", String(32)),
        Index(None, "project_id", "id"),
        Index(None, "project_id", "created_at", "id"),
        Index(None, "project_id", "event"),
    )
    op.create_table(
        "searches",
        Column("id", String(40), primary_key=True),
        Column("project_id", String(40), ForeignKey("projects.id"), nullable=False),
        Column("query", Text, nullable=False),
        Column("term", Text, nullable=False),
        Column("results", Integer),
        Column("clicked", Text),
        Column("visitor", BigInteger),
        Column("event", String(32)),
        Column("click_event", String(32)),
        Column("created_at", BigInteger, nullable=False),
        Index(None, "project_id", "created_at"),
        Index(None, "project_id", "visitor"),
        Index(None, "project_id", "event", unique=True),
    )
    op.create_table(
        "conversations",
        Column("id", String(40), primary_key=True),
        Column("project_id", String(40), ForeignKey("projects.id"), nullable=False),
        Column("thread_id", String(256), nullable=False),
        Column("query", Text, nullable=False),
        Column("response", Text, nullable=False),
        Column("response_type", String(100)),
        Column("sources", JSON, nullable=False),
        Column("answered", Boolean, nullable=False),
        Column("category", String(200)),
        Column("page_url", Text),
        Column("caller", String(20), nullable=False),
        Column("visitor", BigInteger),
        Column("event", String(32)),
        Column("created_at", BigInteger, nullable=False),
        Index(None, "project_id", "created_at", "id"),
        Index(None, "project_id", "thread_id"),
        Index(None, "project_id", "visitor"),
        Index(None, "project_id", "event", unique=True),
    )
    op.create_table(
        "uncounted_requests",
        Column("project_id", String(40), ForeignKey("projects.id"), primary_key=True),
        Column("day", Integer, primary_key=True, autoincrement=False),
        Column("reason", String(40), primary_key=True),
        Column("requests", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "history_days",
        Column("project_id", String(40), ForeignKey("projects.id"), primary_key=True),
        Column("source", String(20), primary_key=True),
        Column("day", Integer, primary_key=True, autoincrement=False),
        Column("visitors", BigInteger, nullable=False),
        Column("pageviews", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "history_pages",
        Column("project_id", String(40), ForeignKey("projects.id"), primary_key=True),
        Column("source", String(20), primary_key=True),
        Column("day", Integer, primary_key=True, autoincrement=False),
        Column("path", Text, primary_key=True),
        Column("visitors", BigInteger, nullable=False),
        Column("pageviews", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "view_batches",
        Column("number", BigInteger, primary_key=True, autoincrement=False),
        Column("shard", Integer, primary_key=True, autoincrement=False),
        Column("batch", String(32), nullable=False),
        Column("rows", Integer, nullable=False),
        Column("fold", BigInteger),
        Index(None, "shard", "number"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "view_folds",
        Column("shard", Integer, primary_key=True, autoincrement=False),
        Column("number", BigInteger, nullable=False),
        Column("holder", String(40)),
        Column("until", BigInteger, nullable=False),
        Column("decided", Text),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "view_marks",
        Column("name", String(40), primary_key=True),
        Column("value", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "view_classes",
        Column("project_id", String(40), primary_key=True),
        Column("ai", Integer, nullable=False),
        sqlite_with_rowid=False,
    )
