"""Adds the daily totals that other analytics tools have counted."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "history_days",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("visitors", sa.BigInteger(), nullable=False),
        sa.Column("pageviews", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_history_days_project_id")),
        sa.PrimaryKeyConstraint("project_id", "source", "day", name=op.f("pk_history_days")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "history_pages",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("visitors", sa.BigInteger(), nullable=False),
        sa.Column("pageviews", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_history_pages_project_id")),
        sa.PrimaryKeyConstraint("project_id", "source", "day", "path", name=op.f("pk_history_pages")),
        sqlite_with_rowid=False,
    )
