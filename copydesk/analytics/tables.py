"""Tables of the main database: interactions of readers, imported history, and the coordination of ClickHouse stores.

The page views themselves are in the analytics store.
"""

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from copydesk.core.db.tables import metadata

feedback = Table(
    "feedback",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("path", Text, nullable=False),
    Column("helpful", Boolean),
    Column("comment", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("source", String(20), nullable=False),
    Column("status", String(20), nullable=False),
    Column("contact", Text),
    Column("code", Text),
    Column("filename", Text),
    Column("lang", Text),
    Column("visitor", BigInteger),
    Column("event", String(32)),
    Index(None, "project_id", "id"),
    Index(None, "project_id", "created_at", "id"),
    Index(None, "project_id", "event"),
)
"""`visitor` is the hash of a visitor, `event` the hash of an event ID in hexadecimal; null means that none was sent."""

searches = Table(
    "searches",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("query", Text, nullable=False),
    Column("term", Text, nullable=False),
    Column("results", Integer),
    Column("clicked", Text),
    Column("visitor", BigInteger),
    Column("event", String(32)),
    Column("click_event", String(32)),
    Column("created_at", BigInteger, nullable=False),
    Index(None, "project_id", "created_at"),
    Index(None, "project_id", "visitor"),
    Index(None, "project_id", "event", unique=True),
)
"""`term` is the query without differences in case and spacing, by which searches are grouped."""

conversations = Table(
    "conversations",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("thread_id", String(256), nullable=False),
    Column("query", Text, nullable=False),
    Column("response", Text, nullable=False),
    Column("response_type", String(100)),
    Column("sources", JSON, nullable=False),
    Column("answered", Boolean, nullable=False),
    Column("category", String(200)),
    Column("page_url", Text),
    Column("caller", String(20), nullable=False),
    Column("visitor", BigInteger),
    Column("event", String(32)),
    Column("created_at", BigInteger, nullable=False),
    Index(None, "project_id", "created_at", "id"),
    Index(None, "project_id", "thread_id"),
    Index(None, "project_id", "visitor"),
    Index(None, "project_id", "event", unique=True),
)
"""Questions to an assistant and its answers. Those with the same thread are one conversation of a reader."""

uncounted_requests = Table(
    "uncounted_requests",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("reason", String(40), primary_key=True),
    Column("requests", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""How many requests of a day were not counted as views, by reason."""

history_days = Table(
    "history_days",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("source", String(20), primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("visitors", BigInteger, nullable=False),
    Column("pageviews", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Daily totals that another tool counted (`source`); `day` is the number of days since 1970."""

history_pages = Table(
    "history_pages",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("source", String(20), primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("path", Text, primary_key=True),
    Column("visitors", BigInteger, nullable=False),
    Column("pageviews", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""The same for each page."""

view_batches = Table(
    "view_batches",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("batch", String(32), nullable=False),
    Column("rows", Integer, nullable=False),
    Column("fold", BigInteger),
    Index(None, "shard", "number"),
    sqlite_with_rowid=False,
)
"""Batches of views that are logged and not yet folded, per shard. A batch exists once its row here is committed.
`fold` is the number of the fold that claimed the batch; null means unclaimed."""

view_folds = Table(
    "view_folds",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
    Column("holder", String(40)),
    Column("until", BigInteger, nullable=False),
    Column("decided", Text),
    sqlite_with_rowid=False,
)
"""The lease of each shard: its holder, when it expires (`until`, in milliseconds), the number of the last fold, and the
committed plan that must still be applied (`decided`, as JSON; null means none)."""

view_marks = Table(
    "view_marks",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Counters by name: `batch` is the number of the last batch."""

view_classes = Table(
    "view_classes",
    metadata,
    Column("project_id", String(40), primary_key=True),
    Column("ai", Integer, nullable=False),
    sqlite_with_rowid=False,
)
"""The classes that count as AI, as a bit mask, of projects that changed the default."""
