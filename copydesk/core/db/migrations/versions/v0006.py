"""Adds the question that a job ended with, and the points that the agent was unsure of."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("question", sa.JSON(none_as_null=True)))
    op.add_column("jobs", sa.Column("unsure", sa.JSON(none_as_null=True)))
