"""Adds tables for events of webhooks that wait for a forge, and for how far the comments of a job were read."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "pending_events",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("event", sa.JSON(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_pending_events_project_id")),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_pending_events")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_pending_events_next_attempt_at"), "pending_events", ["next_attempt_at"], unique=False)
    op.create_table(
        "comment_marks",
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("seen_until", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_comment_marks_job_id")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_comment_marks")),
        sqlite_with_rowid=False,
    )
