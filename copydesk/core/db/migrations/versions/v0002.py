"""Adds tables that coordinate ClickHouse stores: batches, folds, marks and classes of views."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "view_batches",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("batch", sa.String(length=32), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("fold", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", "shard", name=op.f("pk_view_batches")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_view_batches_shard_number"), "view_batches", ["shard", "number"], unique=False)
    op.create_table(
        "view_classes",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("ai", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_view_classes")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "view_folds",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.String(length=40), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("decided", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("shard", name=op.f("pk_view_folds")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "view_marks",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_view_marks")),
        sqlite_with_rowid=False,
    )
