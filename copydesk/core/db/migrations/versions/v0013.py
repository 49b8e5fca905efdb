"""Adds how many requests of each day were not counted as views, and why."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "uncounted_requests",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("reason", sa.String(length=40), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_uncounted_requests_project_id")),
        sa.PrimaryKeyConstraint("project_id", "day", "reason", name=op.f("pk_uncounted_requests")),
        sqlite_with_rowid=False,
    )
