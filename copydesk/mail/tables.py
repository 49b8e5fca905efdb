"""The table of mails that wait to be sent."""

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from copydesk.core.db.tables import metadata

mails = Table(
    "mails",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("key", String(200), nullable=False, unique=True),
    Column("project_id", ForeignKey("projects.id")),
    Column("owner", String(40), nullable=False),
    Column("recipient", String(320), nullable=False),
    Column("subject", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("html", Text, nullable=False),
    Column("headers", JSON, nullable=False),
    Column("message_id", String(300), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", BigInteger),
    Column("lease_until", BigInteger, nullable=False),
    Column("sent_at", BigInteger),
    Column("failed_at", BigInteger),
    Column("error", Text),
    Index(None, "next_attempt_at"),
    Index(None, "project_id", "created_at"),
    Index(None, "owner"),
)
"""`key` names what the mail is about, so that it is queued once. `project_id` null means that the mail belongs to no
project, such as an invitation. `owner` is the subscription, or the digest of the address, that the mail belongs to.
`next_attempt_at` null means that the mail was sent or given up; its text is deleted then. `lease_until` is until when a
server is sending it, and the mark by which that server recognizes its own attempt."""
