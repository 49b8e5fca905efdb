"""Tables for jobs and their durable execution, local pull requests, webhook deliveries, and context repositories."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from copydesk.core.db.tables import metadata

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("status", String(20), nullable=False),
    Column("phase", String(20), nullable=False),
    Column("prompt", Text, nullable=False),
    Column("title", Text),
    Column("summary", Text),
    Column("reason", String(40)),
    Column("message", Text),
    Column("repository", Text, nullable=False),
    Column("ref", String(255), nullable=False),
    Column("model", String(200), nullable=False),
    Column("draft", Boolean, nullable=False),
    Column("branch", String(255), nullable=False),
    Column("base", String(64)),
    Column("head", String(64)),
    Column("pr_link", Text),
    Column("usage", JSON, nullable=False),
    Column("checks", JSON, nullable=False),
    Column("last_event", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("archived_at", BigInteger),
    Column("archived_from", String(20)),
    Column("question", JSON(none_as_null=True)),
    Column("risk", JSON, nullable=False),
    Column("context", JSON(none_as_null=True)),  # null means all context repositories of the project
    Column("evidence", JSON, nullable=False),
    Column("reviewers", JSON, nullable=False),
    Column("merge_limits", JSON(none_as_null=True)),
    Column("created_by", JSON(none_as_null=True)),
    Column("automation_id", String(40)),
    Column("pull_state", String(10)),
    Index(None, "automation_id", "id"),
    Column("second_look", JSON(none_as_null=True)),
    # Derived from other columns, so that the review queue finds jobs by an index; see review_states.py.
    Column("review_state", String(20), nullable=False),
    Column("creator_kind", String(20)),
    Column("creator_id", String(40)),
    Index(None, "review_state", "id", "project_id"),
    Index(None, "creator_kind", "id", "project_id", "review_state"),
    Index(None, "creator_id", "id"),
    Index(None, "project_id", "id"),
    Index(None, "project_id", "status", "id"),
    Index(None, "status", "updated_at"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("job_id", ForeignKey("jobs.id"), nullable=False),
    Column("project_id", String(40), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", String(10), nullable=False),
    Column("version", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    Column("reason", String(40)),
    Column("message", Text),  # how the run ended, as a sentence
    Column("worker", String(120)),
    Column("lease_until", BigInteger),
    Column("released_at", BigInteger),  # null while queued or held, and after a crash
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    UniqueConstraint("job_id", "number"),
    Index(None, "state", "project_id", "id"),
)

messages = Table(
    "messages",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), primary_key=True),
    Column("id", String(40), primary_key=True),
    Column("prompt", Text, nullable=False),  # what a person or an automation's author wrote; only this allows anything
    Column("data", Text),  # what Copydesk collected for the agent: commits, what readers wrote, pages
    Column("created_at", BigInteger, nullable=False),
    Column("run_id", String(40)),
    Column("created_by", JSON(none_as_null=True)),
    Column("origin", JSON(none_as_null=True)),  # what started an automation's run; null for other messages
    sqlite_with_rowid=False,
)

steps = Table(
    "steps",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("name", String(60), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("result", LargeBinary, nullable=False),
    Column("at", BigInteger, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("data", JSON, nullable=False),
    sqlite_with_rowid=False,
)

job_files = Table(
    "job_files",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), primary_key=True),
    Column("path", Text, primary_key=True),
    Column("change", String(20), nullable=False),
    Column("previous", Text),
    Column("additions", Integer, nullable=False),
    Column("deletions", Integer, nullable=False),
    Column("patch", LargeBinary, nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("job_id", String(40), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index(None, "created_at"),
    sqlite_with_rowid=False,
)

pulls = Table(
    "pulls",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("token", String(40), nullable=False, unique=True),
    Column("job_id", ForeignKey("jobs.id"), nullable=False),
    Column("state", String(10), nullable=False),
    Column("draft", Boolean, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("branch", String(255), nullable=False),
    Column("base", String(255), nullable=False),
    Column("head", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("project_id", "branch"),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("id", String(200), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Index(None, "at"),
    sqlite_with_rowid=False,
)

pending_events = Table(
    "pending_events",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("id", String(200), primary_key=True),
    Column("event", JSON, nullable=False),
    Column("received_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", BigInteger, nullable=False),
    Index(None, "next_attempt_at"),
    sqlite_with_rowid=False,
)

comment_marks = Table(
    "comment_marks",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), primary_key=True),
    Column("seen_until", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

review_waits = Table(
    "review_waits",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), primary_key=True),
    Column("waiting_since", BigInteger, nullable=False),  # when anyone but Copydesk last touched the pull request
    Column("claimed_at", BigInteger),  # when a server began to mention it
    Column("mentioned_at", BigInteger),  # null until it was mentioned
    sqlite_with_rowid=False,
)

context_repositories = Table(
    "context_repositories",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("name", String(40), primary_key=True),
    Column("repository", Text, nullable=False),
    Column("ref", String(255), nullable=False),
    Column("forge", String(20), nullable=False),
    Column("has_token", Boolean, nullable=False),
    Column("allow_private", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
