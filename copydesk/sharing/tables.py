"""Tables of the links that share analytics."""

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, String, Table

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
