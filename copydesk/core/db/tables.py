"""Tables of projects, secrets, keys, people, audit and limits. Times are in milliseconds; JSON holds our own types."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

projects = Table(
    "projects",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("site_id", String(40), nullable=False, unique=True),
    Column("name", String(200), nullable=False),
    Column("repository", Text, nullable=False),
    Column("ref", String(255), nullable=False),
    Column("root", Text, nullable=False),
    Column("forge", String(20), nullable=False),
    Column("model", String(200)),
    Column("token_env", String(200)),
    Column("allow_private", Boolean, nullable=False),
    Column("policy", JSON, nullable=False),
    Column("collecting", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

secrets = Table(
    "secrets",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("name", String(60), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("hint", String(20), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("allow", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("expires_at", BigInteger),
    Column("last_used_at", BigInteger),
    Column("revoked_at", BigInteger),
    Index(None, "project_id", "created_at"),
)

people = Table(
    "people",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("email", String(200), nullable=False, unique=True),
    Column("name", String(200), nullable=False),
    Column("role", String(20), nullable=False),
    Column("password", String(200)),
    Column("subject", String(400), unique=True),
    Column("created_at", BigInteger, nullable=False),
)

invitations = Table(
    "invitations",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("email", String(200), nullable=False),
    Column("role", String(20), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("project_roles", JSON, nullable=False),
)

project_roles = Table(
    "project_roles",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("role", String(20), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(200), nullable=False),
    Index(None, "project_id"),
    sqlite_with_rowid=False,
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("person_id", ForeignKey("people.id"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("address", String(64)),
    Column("agent", String(400), nullable=False),
    Index(None, "person_id"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("project_id", String(40), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("action", String(60), nullable=False),
    Column("subject", String(60), nullable=False),
    Column("details", JSON, nullable=False),
    Index(None, "project_id", "at"),
)

limits = Table(
    "limits",
    metadata,
    Column("bucket", String(120), primary_key=True),
    Column("started_at", BigInteger, nullable=False),
    Column("used", Integer, nullable=False),
    sqlite_with_rowid=False,
)
