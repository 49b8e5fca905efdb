"""Adds the column `released_at`. Before, `lease_until` held the time of a release as a negative number."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("runs", sa.Column("released_at", sa.BigInteger(), nullable=True))
    op.execute("update runs set released_at = -lease_until, lease_until = -lease_until where lease_until <= 0")
