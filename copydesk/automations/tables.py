"""Tables for automations, their runs and files, watched repositories, looks, leases and stale pages."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
)

import copydesk.jobs.storage.tables  # noqa: F401 - adds the tables that these refer to
from copydesk.core.db.tables import metadata

automations = Table(
    "automations",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("definition", JSON, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("trigger_type", String(20), nullable=False),
    Column("next_slot_at", BigInteger),  # null without a schedule; a slot in the past waits for a limit
    Column("notice", JSON(none_as_null=True)),
    Column("source", JSON(none_as_null=True)),  # the file that defines it; null for others
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index(None, "project_id", "id"),
    Index(None, "enabled", "trigger_type", "next_slot_at"),
)

automation_runs = Table(
    "automation_runs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("automation_id", ForeignKey("automations.id"), nullable=False),
    Column("key", String(200), nullable=False),  # the slot, commits or request; one run for each
    Column("job_id", ForeignKey("jobs.id"), nullable=False),
    Column("message_id", String(40), nullable=False),
    Column("is_appended", Boolean, nullable=False),
    Column("trigger", JSON, nullable=False),
    Column("fired_at", BigInteger, nullable=False),
    Column("ended_at_once", Boolean, nullable=False),  # without a model; does not count against the daily limit
    Column("cost_before", Float, nullable=False),  # of the job, in USD, before this run
    UniqueConstraint("automation_id", "key"),
    Index(None, "automation_id", "fired_at"),
    Index(None, "job_id"),
)

automation_sources = Table(
    "automation_sources",
    metadata,
    Column("automation_id", ForeignKey("automations.id"), primary_key=True),
    Column("name", String(200), primary_key=True),  # of the context repository; empty for the project's own
    Column("address", Text, nullable=False),
    Column("seen", JSON, nullable=False),  # refs and their commits at the last look
    Column("fired", JSON, nullable=False),  # refs and their commits at the last run
    Column("pending_since", BigInteger),  # when the first change that no run has seen was noticed; null without one
    Column("changed_at", BigInteger),  # when the newest one was noticed
    sqlite_with_rowid=False,
)

automation_files = Table(
    "automation_files",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("key", String(64), nullable=False),  # a digest of all that the last reading depended on; empty before it
    Column("branch", Text),
    Column("commit_id", String(64)),
    Column("files", JSON, nullable=False),  # the path, automation and problems of each file
    Column("problem", Text),  # why the repository could not be read since then
    Column("read_at", BigInteger),
    sqlite_with_rowid=False,
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(60), primary_key=True),
    Column("holder", String(120), nullable=False),
    Column("until", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

look_requests = Table(
    "look_requests",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("name", String(200), primary_key=True),  # of the context repository; empty for the project's own
    Column("request_id", String(40), nullable=False),  # of the newest request
    Column("due_at", BigInteger),  # when to look; null means that nothing is requested
    Column("looked_at", BigInteger),  # when a server last began a requested look
    Index(None, "due_at"),
    sqlite_with_rowid=False,
)

page_comparisons = Table(
    "page_comparisons",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("requested_at", BigInteger),  # null means that nothing is requested
    Column("claim", String(40)),  # of the worker that compares
    Column("claimed_until", BigInteger),
    Column("attempts", Integer, nullable=False),  # since the request
    Column("finished_at", BigInteger),  # when the last comparison ended, also if it failed
    Column("problem", Text),  # why it failed; null if it did not
    Column("key", String(64)),  # a digest of all that the report depends on
    Column("report", JSON(none_as_null=True)),  # the last one; a failure keeps it
    Column("computed_at", BigInteger),
    Index(None, "requested_at"),
    sqlite_with_rowid=False,
)
