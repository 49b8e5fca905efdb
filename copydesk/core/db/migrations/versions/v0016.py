"""Adds the outbox of mails, and the subscriptions to weekly summaries."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "mails",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=40), nullable=False),
        sa.Column("recipient", sa.String(length=320), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("html", sa.Text(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("message_id", sa.String(length=300), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger()),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("sent_at", sa.BigInteger()),
        sa.Column("failed_at", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_mails_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mails")),
        sa.UniqueConstraint("key", name=op.f("uq_mails_key")),
    )
    op.create_index(op.f("ix_mails_next_attempt_at"), "mails", ["next_attempt_at"], unique=False)
    op.create_index(op.f("ix_mails_project_id_created_at"), "mails", ["project_id", "created_at"], unique=False)
    op.create_index(op.f("ix_mails_owner"), "mails", ["owner"], unique=False)
    op.create_table(
        "summary_schedules",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("timezone", sa.String(length=60), nullable=False),
        sa.Column("next_slot_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_summary_schedules_project_id")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_summary_schedules")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_summary_schedules_next_slot_at"), "summary_schedules", ["next_slot_at"], unique=False)
    op.create_table(
        "summary_subscribers",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("person_id", sa.String(length=40)),
        sa.Column("email", sa.String(length=320), nullable=False),
        sa.Column("token", sa.String(length=40), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_summary_subscribers_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_summary_subscribers")),
        sa.UniqueConstraint("token", name=op.f("uq_summary_subscribers_token")),
        sa.UniqueConstraint("project_id", "email", name=op.f("uq_summary_subscribers_project_id_email")),
    )
