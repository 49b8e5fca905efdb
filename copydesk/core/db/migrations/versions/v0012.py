"""Adds what started a message of an automation, and how long pull requests wait for a review."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("messages", sa.Column("origin", sa.JSON(none_as_null=True)))
    op.create_table(
        "review_waits",
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("waiting_since", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at", sa.BigInteger()),
        sa.Column("mentioned_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_review_waits_job_id")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_review_waits")),
        sqlite_with_rowid=False,
    )
