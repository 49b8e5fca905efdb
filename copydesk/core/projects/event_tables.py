"""Tables of webhook endpoints, the events that they are told of, and the delivery of each event to each endpoint."""

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from copydesk.core.db.tables import metadata

webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("shown_url", Text, nullable=False),
    Column("format", String(10), nullable=False),
    Column("events", JSON, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("is_gone", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("previous_secret_until", BigInteger),
    Column("last_success_at", BigInteger),
    Column("failing_since", BigInteger),
    Column("last_error", Text),
    Column("is_slow", Boolean, nullable=False),
    Column("hold_until", BigInteger, nullable=False),
    Index(None, "project_id", "id"),
)
"""The URL and the signing secrets are among the project's encrypted secrets; `shown_url` leaves out what may be secret.
`is_gone` means that the receiver answered 410. `failing_since` is the first failure after the last success; null means
that the last attempt succeeded. `is_slow` means that the last attempt timed out. `hold_until` is until when the
receiver asked for no deliveries."""

webhook_events = Table(
    "webhook_events",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("type", String(40), nullable=False),
    Column("subject", String(40), nullable=False),
    Column("data", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index(None, "project_id", "created_at"),
    Index(None, "subject"),
)
"""`id` is the `webhook-id` of every delivery. `subject` is the ID of the job or entry that the event is about."""

event_deliveries = Table(
    "event_deliveries",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("endpoint_id", ForeignKey("webhook_endpoints.id"), nullable=False),
    Column("event_id", ForeignKey("webhook_events.id"), nullable=False),
    Column("order_key", String(40)),
    Column("position", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", BigInteger),
    Column("lease_until", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("outcome", String(10)),
    Column("last_status", Integer),
    Column("error", Text),
    Index(None, "endpoint_id", "next_attempt_at"),
    Index(None, "endpoint_id", "order_key", "position"),
    Index(None, "next_attempt_at", "created_at"),
    Index(None, "event_id"),
    Index(None, "created_at"),
)
"""`order_key` is the job of the event: deliveries with the same key go to an endpoint in the order of `position`. Null
means no order. `next_attempt_at` null means that the delivery has ended, and `outcome` says how; 0 means at once.
`lease_until` is until when a server is sending it, and the mark by which that server recognizes its own attempt."""

delivery_attempts = Table(
    "delivery_attempts",
    metadata,
    Column("delivery_id", ForeignKey("event_deliveries.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("status", Integer),
    Column("error", Text),
    Column("excerpt", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""`status` null means that there was no answer, and `error` says why. `excerpt` is the beginning of the answer."""
