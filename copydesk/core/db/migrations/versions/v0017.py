"""Adds roles in single projects. Existing people keep the role that they have in all projects."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "project_roles",
        sa.Column("person_id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name=op.f("fk_project_roles_person_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_project_roles_project_id")),
        sa.PrimaryKeyConstraint("person_id", "project_id", name=op.f("pk_project_roles")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_project_roles_project_id"), "project_roles", ["project_id"], unique=False)
    op.add_column("invitations", sa.Column("project_roles", sa.JSON(), nullable=True))
