"""Creates all tables."""

from copydesk.core.db.migrations.initial import accounts, analytics, automations, jobs, messages

revision = "0001"
down_revision = None


def upgrade() -> None:
    for subject in (accounts, jobs, analytics, automations, messages):
        subject.create_tables()
