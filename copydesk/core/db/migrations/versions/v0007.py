"""Adds the objections of the second look at a job's change."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("second_look", sa.JSON(none_as_null=True)))
