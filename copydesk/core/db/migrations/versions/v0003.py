"""When a worker gave a run back, in a column of its own. Before, `lease_until` held it as a negative number."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("runs", sa.Column("released_at", sa.BigInteger(), nullable=True))
    op.execute("update runs set released_at = -lease_until, lease_until = -lease_until where lease_until <= 0")
