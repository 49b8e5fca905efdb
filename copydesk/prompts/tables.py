"""The table of the prompt templates that projects have created. Built-in ones are in `builtin.toml`."""

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, String, Table, Text

from copydesk.core.db.tables import metadata

prompt_templates = Table(
    "prompt_templates",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("name", String(60), primary_key=True),
    Column("title", String(200), nullable=False),
    Column("description", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("fields", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
