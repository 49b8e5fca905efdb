"""Adds requests for a look at a watched repository, which webhooks leave for the workers."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "look_requests",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("request_id", sa.String(length=40), nullable=False),
        sa.Column("due_at", sa.BigInteger()),
        sa.Column("looked_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_look_requests_project_id")),
        sa.PrimaryKeyConstraint("project_id", "name", name=op.f("pk_look_requests")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_look_requests_due_at"), "look_requests", ["due_at"], unique=False)
