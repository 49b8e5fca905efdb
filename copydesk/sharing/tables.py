"""Tables of the links that share analytics, and of weekly summaries."""

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, String, Table, UniqueConstraint

from copydesk.core.db.tables import metadata

share_links = Table(
    "share_links",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("parts", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("expires_at", BigInteger),
    Column("last_used_at", BigInteger),
    Column("revoked_at", BigInteger),
    Index(None, "project_id", "id"),
)
"""`digest` is the SHA-256 of the token, which is stored nowhere. `parts` are the names of what the link shows."""

summary_schedules = Table(
    "summary_schedules",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("timezone", String(60), nullable=False),
    Column("next_slot_at", BigInteger, nullable=False),
    Index(None, "next_slot_at"),
    sqlite_with_rowid=False,
)
"""When the next weekly summary of a project is due."""

summary_subscribers = Table(
    "summary_subscribers",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("person_id", String(40)),
    Column("email", String(320), nullable=False),
    Column("token", String(40), nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("ended_at", BigInteger),
    UniqueConstraint("project_id", "email"),
)
"""Who gets the weekly summary of a project. `person_id` null means an address without an account. `token` is the secret
part of the link that ends the subscription. `ended_at` is when the subscriber ended it; null means active."""
