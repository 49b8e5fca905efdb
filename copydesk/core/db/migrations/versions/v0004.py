"""Adds the fields of the feedback API, and tables for searches and questions."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for column in (
        sa.Column("source", sa.String(length=20), nullable=False, server_default="contextual"),
        sa.Column("status", sa.String(length=20), nullable=False, server_default="pending"),
        sa.Column("contact", sa.Text(), nullable=True),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("filename", sa.Text(), nullable=True),
        sa.Column("lang", sa.Text(), nullable=True),
        sa.Column("visitor", sa.BigInteger(), nullable=True),
        sa.Column("event", sa.String(length=32), nullable=True),
    ):
        op.add_column("feedback", column)
    op.execute("update feedback set source = 'thumbs_only' where comment is null")
    order = ["project_id", "created_at", "id"]
    op.create_index(op.f("ix_feedback_project_id_created_at_id"), "feedback", order, unique=False)
    op.create_index(op.f("ix_feedback_project_id_event"), "feedback", ["project_id", "event"], unique=False)
    _create_searches()
    _create_conversations()


def _create_searches() -> None:
    op.create_table(
        "searches",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("results", sa.Integer(), nullable=True),
        sa.Column("clicked", sa.Text(), nullable=True),
        sa.Column("visitor", sa.BigInteger(), nullable=True),
        sa.Column("event", sa.String(length=32), nullable=True),
        sa.Column("click_event", sa.String(length=32), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_searches_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_searches")),
    )
    op.create_index(op.f("ix_searches_project_id_created_at"), "searches", ["project_id", "created_at"], unique=False)
    op.create_index(op.f("ix_searches_project_id_visitor"), "searches", ["project_id", "visitor"], unique=False)
    op.create_index(op.f("ix_searches_project_id_event"), "searches", ["project_id", "event"], unique=True)


def _create_conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("thread_id", sa.String(length=256), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("response_type", sa.String(length=100), nullable=True),
        sa.Column("sources", sa.JSON(), nullable=False),
        sa.Column("answered", sa.Boolean(), nullable=False),
        sa.Column("category", sa.String(length=200), nullable=True),
        sa.Column("page_url", sa.Text(), nullable=True),
        sa.Column("caller", sa.String(length=20), nullable=False),
        sa.Column("visitor", sa.BigInteger(), nullable=True),
        sa.Column("event", sa.String(length=32), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_conversations_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
    )
    for columns in (["project_id", "created_at", "id"], ["project_id", "thread_id"], ["project_id", "visitor"]):
        op.create_index(op.f(f"ix_conversations_{'_'.join(columns)}"), "conversations", columns, unique=False)
    op.create_index(op.f("ix_conversations_project_id_event"), "conversations", ["project_id", "event"], unique=True)
