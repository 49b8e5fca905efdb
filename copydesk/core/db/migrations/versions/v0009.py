"""Adds automations and their runs, who created a job or message, and the state of a job's pull request."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("created_by", sa.JSON(none_as_null=True)))
    op.add_column("jobs", sa.Column("automation_id", sa.String(length=40)))
    op.add_column("jobs", sa.Column("pull_state", sa.String(length=10)))
    op.create_index(op.f("ix_jobs_automation_id_id"), "jobs", ["automation_id", "id"], unique=False)
    op.add_column("messages", sa.Column("created_by", sa.JSON(none_as_null=True)))
    _fill_pull_states()
    op.create_table(
        "automations",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("definition", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("trigger_type", sa.String(length=20), nullable=False),
        sa.Column("next_slot_at", sa.BigInteger()),
        sa.Column("notice", sa.JSON(none_as_null=True)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_automations_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_automations")),
    )
    op.create_index(op.f("ix_automations_project_id_id"), "automations", ["project_id", "id"], unique=False)
    op.create_index(
        op.f("ix_automations_enabled_trigger_type_next_slot_at"),
        "automations",
        ["enabled", "trigger_type", "next_slot_at"],
        unique=False,
    )
    op.create_table(
        "automation_runs",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("automation_id", sa.String(length=40), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("message_id", sa.String(length=40), nullable=False),
        sa.Column("is_appended", sa.Boolean(), nullable=False),
        sa.Column("trigger", sa.JSON(), nullable=False),
        sa.Column("fired_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_once", sa.Boolean(), nullable=False),
        sa.Column("cost_before", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["automation_id"], ["automations.id"], name=op.f("fk_automation_runs_automation_id")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_automation_runs_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_automation_runs")),
        sa.UniqueConstraint("automation_id", "key", name=op.f("uq_automation_runs_automation_id_key")),
    )
    op.create_index(
        op.f("ix_automation_runs_automation_id_fired_at"),
        "automation_runs",
        ["automation_id", "fired_at"],
        unique=False,
    )
    op.create_index(op.f("ix_automation_runs_job_id"), "automation_runs", ["job_id"], unique=False)
    op.create_table(
        "automation_sources",
        sa.Column("automation_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("seen", sa.JSON(), nullable=False),
        sa.Column("fired", sa.JSON(), nullable=False),
        sa.Column("pending_since", sa.BigInteger()),
        sa.Column("changed_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(
            ["automation_id"], ["automations.id"], name=op.f("fk_automation_sources_automation_id")
        ),
        sa.PrimaryKeyConstraint("automation_id", "name", name=op.f("pk_automation_sources")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("holder", sa.String(length=120), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
        sqlite_with_rowid=False,
    )


def _fill_pull_states() -> None:
    """Copies the states of local pull requests. On a forge, those of jobs that are not archived are open."""
    op.execute(
        "update jobs set pull_state = coalesce((select state from pulls where pulls.job_id = jobs.id), 'open')"
        " where pr_link is not null and (status <> 'archived' or exists (select 1 from pulls where job_id = jobs.id))"
    )
