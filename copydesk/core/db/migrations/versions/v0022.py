"""Adds what became of a job and who asked for it as columns of their own, for the review queue."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("review_state", sa.String(length=20)))
    op.add_column("jobs", sa.Column("creator_kind", sa.String(length=20)))
    op.add_column("jobs", sa.Column("creator_id", sa.String(length=40)))
    _fill_review_states()
    _fill_creators()
    op.create_index(op.f("ix_jobs_review_state_id_project_id"), "jobs", ["review_state", "id", "project_id"])
    op.create_index(
        op.f("ix_jobs_creator_kind_id_project_id_review_state"),
        "jobs",
        ["creator_kind", "id", "project_id", "review_state"],
    )
    op.create_index(op.f("ix_jobs_creator_id_id"), "jobs", ["creator_id", "id"])


def _fill_review_states() -> None:
    """A pull request without a recorded state counts as open; an archived job with one is archived."""
    op.execute(
        "update jobs set review_state = case"
        " when status = 'active' then 'running'"
        " when pull_state = 'merged' then 'merged'"
        " when pull_state = 'closed' then 'closed'"
        " when status = 'archived' and (pull_state = 'open' or pr_link is not null"
        " or reason in ('question', 'not_understood')) then 'archived'"
        " when pull_state = 'open' or pr_link is not null then 'open'"
        " when reason = 'no_changes' then 'unchanged'"
        " when reason in ('question', 'not_understood') then 'unanswered'"
        " when status = 'failed' or archived_from = 'failed' then 'failed'"
        " when status = 'archived' then 'archived'"
        " else 'unchanged' end"
    )


def _fill_creators() -> None:
    """Earlier versions recorded the ID of automations only."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("update jobs set creator_kind = created_by ->> 'kind' where created_by is not null")
    else:
        op.execute("update jobs set creator_kind = json_extract(created_by, '$.kind') where created_by is not null")
    op.execute("update jobs set creator_id = automation_id where automation_id is not null")
