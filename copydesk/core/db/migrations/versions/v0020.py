"""Adds the comparisons of popular pages with their sources."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "page_comparisons",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("requested_at", sa.BigInteger()),
        sa.Column("claim", sa.String(length=40)),
        sa.Column("claimed_until", sa.BigInteger()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("problem", sa.Text()),
        sa.Column("key", sa.String(length=64)),
        sa.Column("report", sa.JSON()),
        sa.Column("computed_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_page_comparisons_project_id")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_page_comparisons")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_page_comparisons_requested_at"), "page_comparisons", ["requested_at"], unique=False)
