"""Creates the tables of automations, their runs and files, watched repositories and stale pages."""

from alembic import op
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
)


def create_tables() -> None:
    op.create_table(
        "automations",
        Column("id", String(40), primary_key=True),
        Column("project_id", String(40), ForeignKey("projects.id"), nullable=False),
        Column("definition", JSON, nullable=False),
        Column("enabled", Boolean, nullable=False),
        Column("trigger_type", String(20), nullable=False),
        Column("next_slot_at", BigInteger),
        Column("notice", JSON(none_as_null=True)),
        Column("source", JSON(none_as_null=True)),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Index(None, "project_id", "id"),
        Index(None, "enabled", "trigger_type", "next_slot_at"),
    )
    op.create_table(
        "automation_runs",
        Column("id", String(40), primary_key=True),
        Column("automation_id", String(40), ForeignKey("automations.id"), nullable=False),
        Column("key", String(200), nullable=False),
        Column("job_id", String(40), ForeignKey("jobs.id"), nullable=False),
        Column("message_id", String(40), nullable=False),
        Column("is_appended", Boolean, nullable=False),
        Column("trigger", JSON, nullable=False),
        Column("fired_at", BigInteger, nullable=False),
        Column("ended_at_once", Boolean, nullable=False),
        Column("cost_before", Float, nullable=False),
        UniqueConstraint("automation_id", "key"),
        Index(None, "automation_id", "fired_at"),
        Index(None, "job_id"),
    )
    op.create_table(
        "automation_sources",
        Column("automation_id", String(40), ForeignKey("automations.id"), primary_key=True),
        Column("name", String(200), primary_key=True),
        Column("address", Text, nullable=False),
        Column("seen", JSON, nullable=False),
        Column("fired", JSON, nullable=False),
        Column("pending_since", BigInteger),
        Column("changed_at", BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "automation_files",
        Column("project_id", String(40), ForeignKey("projects.id"), primary_key=True),
        Column("key", String(64), nullable=False),
        Column("branch", Text),
        Column("commit_id", String(64)),
        Column("files", JSON, nullable=False),
        Column("problem", Text),
        Column("read_at", BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "leases",
        Column("name", String(60), primary_key=True),
        Column("holder", String(120), nullable=False),
        Column("until", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "look_requests",
        Column("project_id", String(40), ForeignKey("projects.id"), primary_key=True),
        Column("name", String(200), primary_key=True),
        Column("request_id", String(40), nullable=False),
        Column("due_at", BigInteger),
        Column("looked_at", BigInteger),
        Index(None, "due_at"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "page_comparisons",
        Column("project_id", String(40), ForeignKey("projects.id"), primary_key=True),
        Column("requested_at", BigInteger),
        Column("claim", String(40)),
        Column("claimed_until", BigInteger),
        Column("attempts", Integer, nullable=False),
        Column("finished_at", BigInteger),
        Column("problem", Text),
        Column("key", String(64)),
        Column("report", JSON(none_as_null=True)),
        Column("computed_at", BigInteger),
        Index(None, "requested_at"),
        sqlite_with_rowid=False,
    )
