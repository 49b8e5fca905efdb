"""Allows mails that belong to no project, such as invitations."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    with op.batch_alter_table("mails") as batch:
        batch.alter_column("project_id", existing_type=sa.String(length=40), nullable=True)
