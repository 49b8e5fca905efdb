"""Adds webhook endpoints, the events that they are told of, and the log of deliveries."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    _create_endpoints()
    _create_events()
    _create_deliveries()


def _create_endpoints() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("shown_url", sa.Text(), nullable=False),
        sa.Column("format", sa.String(length=10), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("is_gone", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("previous_secret_until", sa.BigInteger()),
        sa.Column("last_success_at", sa.BigInteger()),
        sa.Column("failing_since", sa.BigInteger()),
        sa.Column("last_error", sa.Text()),
        sa.Column("is_slow", sa.Boolean(), nullable=False),
        sa.Column("hold_until", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_webhook_endpoints_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_endpoints")),
    )
    op.create_index(op.f("ix_webhook_endpoints_project_id_id"), "webhook_endpoints", ["project_id", "id"])


def _create_events() -> None:
    op.create_table(
        "webhook_events",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("type", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=40), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_webhook_events_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_events")),
    )
    op.create_index(op.f("ix_webhook_events_project_id_created_at"), "webhook_events", ["project_id", "created_at"])
    op.create_index(op.f("ix_webhook_events_subject"), "webhook_events", ["subject"])


def _create_deliveries() -> None:
    op.create_table(
        "event_deliveries",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("endpoint_id", sa.String(length=40), nullable=False),
        sa.Column("event_id", sa.String(length=40), nullable=False),
        sa.Column("order_key", sa.String(length=40)),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger()),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("outcome", sa.String(length=10)),
        sa.Column("last_status", sa.Integer()),
        sa.Column("error", sa.Text()),
        sa.ForeignKeyConstraint(
            ["endpoint_id"], ["webhook_endpoints.id"], name=op.f("fk_event_deliveries_endpoint_id")
        ),
        sa.ForeignKeyConstraint(["event_id"], ["webhook_events.id"], name=op.f("fk_event_deliveries_event_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event_deliveries")),
    )
    for columns in (
        ["endpoint_id", "next_attempt_at"],
        ["endpoint_id", "order_key", "position"],
        ["next_attempt_at", "created_at"],
        ["event_id"],
        ["created_at"],
    ):
        op.create_index(op.f(f"ix_event_deliveries_{'_'.join(columns)}"), "event_deliveries", columns)
    op.create_table(
        "delivery_attempts",
        sa.Column("delivery_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("error", sa.Text()),
        sa.Column("excerpt", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["delivery_id"], ["event_deliveries.id"], name=op.f("fk_delivery_attempts_delivery_id")
        ),
        sa.PrimaryKeyConstraint("delivery_id", "number", name=op.f("pk_delivery_attempts")),
        sqlite_with_rowid=False,
    )
