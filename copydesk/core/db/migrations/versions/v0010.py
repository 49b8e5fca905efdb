"""Adds automations that files of the repository define, and what was read there."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("automations", sa.Column("source", sa.JSON(none_as_null=True)))
    op.create_table(
        "automation_files",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("branch", sa.Text()),
        sa.Column("commit_id", sa.String(length=64)),
        sa.Column("files", sa.JSON(), nullable=False),
        sa.Column("problem", sa.Text()),
        sa.Column("read_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_automation_files_project_id")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_automation_files")),
        sqlite_with_rowid=False,
    )
