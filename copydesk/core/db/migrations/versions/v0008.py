"""Adds context repositories and the evidence from them, and the limits of jobs that are merged without a review."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "context_repositories",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("ref", sa.String(length=255), nullable=False),
        sa.Column("forge", sa.String(length=20), nullable=False),
        sa.Column("has_token", sa.Boolean(), nullable=False),
        sa.Column("allow_private", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_context_repositories_project_id")),
        sa.PrimaryKeyConstraint("project_id", "name", name=op.f("pk_context_repositories")),
        sqlite_with_rowid=False,
    )
    op.add_column("jobs", sa.Column("context", sa.JSON(none_as_null=True)))
    op.add_column("jobs", sa.Column("reviewers", sa.JSON(none_as_null=True)))
    op.add_column("jobs", sa.Column("merge_limits", sa.JSON(none_as_null=True)))
    op.add_column("jobs", sa.Column("evidence", sa.JSON(none_as_null=True)))
