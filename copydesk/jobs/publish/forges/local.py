"""The forge `local`: the branch is pushed to the repository; the pull request is stored and shown by Copydesk."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Row, func, insert, select, update

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.errors import Conflict, NotFound
from copydesk.core.ids import random_text
from copydesk.jobs.job import ACTIVE, Job, PullState, RepositoryFailed
from copydesk.jobs.publish.git.local_repository import build_merge_command, find_work_tree
from copydesk.jobs.service import Jobs
from copydesk.jobs.storage.records import archive_job, get_job_for_update
from copydesk.jobs.storage.tables import jobs, pulls

if TYPE_CHECKING:
    from copydesk.jobs.publish.git.mirror import Mirror

OPEN: PullState = "open"
MERGED: PullState = "merged"
CLOSED: PullState = "closed"


class PullNotFound(NotFound):
    code = "pull_not_found"
    message = "There is no such pull request."


class PullConflict(Conflict):
    code = "pull_conflict"
    message = "The pull request cannot be merged in its current state."


@dataclass(frozen=True)
class LocalPull:
    project_id: str
    number: int
    token: str
    job_id: str
    state: str
    draft: bool
    title: str
    body: str
    branch: str
    base: str
    head: str
    created_at: int
    updated_at: int

    def link(self, base_url: str) -> str:
        """Returns the URL of the review page. Its token gives access without sign-in."""
        return f"{base_url}/review/{self.token}/pulls/{self.number}"


def find_or_open_pull(
    database: Database, tx: Connection, job: Job, title: str, body: str, head: str, draft: bool
) -> LocalPull:
    """Opens the branch's pull request, or updates the body of the existing one and reopens it if it was closed."""
    same_branch = (pulls.c.project_id == job.project_id) & (pulls.c.branch == job.branch)
    now = clock.now()
    values: dict[str, Any] = {"head": head, "state": OPEN, "updated_at": now}
    existing = tx.execute(select(pulls.c.number).where(same_branch)).first()
    if existing is not None:
        tx.execute(update(pulls).where(same_branch).values({**values, "body": body}))
    else:
        row = {
            "project_id": job.project_id,
            "number": _next_number(tx, job.project_id),
            "token": random_text(22),
            "job_id": job.id,
            "draft": draft,
            "title": title,
            "body": body,
            "branch": job.branch,
            "base": job.ref,
            "created_at": now,
            **values,
        }
        tx.execute(insert(pulls).values(row))
    return _pull_from_row(tx.execute(select(pulls).where(same_branch)).one())


class LocalPulls:
    """Lists, merges and closes local pull requests."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self.database = database
        self.jobs = jobs

    def list_for_project(self, project_id: str) -> list[LocalPull]:
        """Returns the project's pull requests, newest first."""
        query = select(pulls).where(pulls.c.project_id == project_id).order_by(pulls.c.number.desc())
        with self.database.read() as tx:
            return [_pull_from_row(row) for row in tx.execute(query)]

    def list_idle_by_project(self) -> dict[str, list[LocalPull]]:
        """Returns the open pull requests without an active job, by project."""
        query = select(pulls).join(jobs, jobs.c.id == pulls.c.job_id)
        pulls_by_project: dict[str, list[LocalPull]] = {}
        with self.database.read() as tx:
            for row in tx.execute(query.where(pulls.c.state == OPEN, jobs.c.status != ACTIVE)):
                pulls_by_project.setdefault(row.project_id, []).append(_pull_from_row(row))
        return pulls_by_project

    def get_pull(self, project_id: str, number: int) -> LocalPull:
        return self._get_one((pulls.c.project_id == project_id) & (pulls.c.number == number))

    def get_pull_by_token(self, token: str, number: int) -> LocalPull:
        return self._get_one((pulls.c.token == token) & (pulls.c.number == number))

    def merge(self, pull: LocalPull, mirror: "Mirror", actor: str = "") -> LocalPull:
        """Merges the current branch into its base, pushes the base, and archives the job."""
        if pull.state != OPEN:
            raise PullConflict(f"Pull request {pull.number} is {pull.state}.")
        if self.jobs.get(pull.project_id, pull.job_id).status is ACTIVE:
            raise PullConflict("The job is still running. Wait for it to finish, or cancel it.")
        base = mirror.fetch_head(pull.base)
        head = mirror.fetch_head(pull.branch)
        if not mirror.contains(base, head):
            _refuse_checked_out_base(pull, mirror)
            import pygit2  # slow to import, and only a merge needs it

            author = pygit2.Signature("Copydesk", "copydesk@localhost")
            message = f"Merge pull request {pull.number}: {pull.title}\n"
            merged = mirror.merge(base, head, message, author)
            if merged is None:
                raise PullConflict(f"{pull.branch} conflicts with {pull.base}. Resolve the conflict in the repository.")
            mirror.push(merged, pull.base, base)
        return self._finish(pull, MERGED, actor)

    def close(self, pull: LocalPull, actor: str = "") -> LocalPull:
        if pull.state != OPEN:
            raise PullConflict(f"Pull request {pull.number} is {pull.state}.")
        return self._finish(pull, CLOSED, actor)

    def reopen(self, pull: LocalPull) -> None:
        """Opens a closed pull request again. Does nothing if it is open; raises PullConflict if it was merged."""
        if pull.state == MERGED:
            raise PullConflict(f"Pull request {pull.number} was merged.")
        with self.database.write() as tx:
            is_closed = _same_pull_condition(pull) & (pulls.c.state == CLOSED)
            tx.execute(update(pulls).where(is_closed).values(state=OPEN, updated_at=clock.now()))

    def mark_merged(self, pull: LocalPull) -> bool:
        """Records that the branch was merged with git, outside Copydesk, and archives the job.

        Returns False, without a change, if the job or the pull request has changed since it was read.
        """
        same_pull = _same_pull_condition(pull)
        with self.database.write() as tx:
            job = get_job_for_update(tx, pull.job_id)
            row = tx.execute(select(pulls.c.state, pulls.c.head).where(same_pull)).one()
            if job is None or job.status is ACTIVE or (row.state, row.head) != (OPEN, pull.head):
                return False
            tx.execute(update(pulls).where(same_pull).values(state=MERGED, updated_at=clock.now()))
            archive_job(self.database, tx, job, MERGED)
        return True

    def _finish(self, pull: LocalPull, state: PullState, actor: str) -> LocalPull:
        same_pull = _same_pull_condition(pull)
        with self.database.write() as tx:
            self.jobs.archive_in(tx, pull.project_id, pull.job_id, state)
            tx.execute(update(pulls).where(same_pull).values(state=state, updated_at=clock.now()))
            if actor:
                audit_log.record(tx, pull.project_id, actor, f"pull.{state}", str(pull.number), branch=pull.branch)
        return self._get_one(same_pull)

    def _get_one(self, condition: Any) -> LocalPull:
        with self.database.read() as tx:
            row = tx.execute(select(pulls).where(condition)).first()
        if row is None:
            raise PullNotFound
        return _pull_from_row(row)


def _refuse_checked_out_base(pull: LocalPull, mirror: "Mirror") -> None:
    """Raises RepositoryFailed, with the command to run, if the base branch is checked out in a work tree."""
    work_tree = find_work_tree(mirror.git.url, pull.base)
    if work_tree is not None:
        raise RepositoryFailed(
            f"The branch {pull.base} is checked out in {work_tree}, so Copydesk does not move it. Merge it there with "
            "git, or check out another branch there and try again. To merge it, run: "
            f"{build_merge_command(work_tree, pull.branch)}"
        )


def _same_pull_condition(pull: LocalPull) -> ColumnElement[bool]:
    return (pulls.c.project_id == pull.project_id) & (pulls.c.number == pull.number)


def _next_number(tx: Connection, project_id: str) -> int:
    tx.execute(select(projects.c.id).where(projects.c.id == project_id).with_for_update(key_share=True))
    last: int = tx.execute(
        select(func.coalesce(func.max(pulls.c.number), 0)).where(pulls.c.project_id == project_id)
    ).scalar_one()
    return last + 1


def _pull_from_row(row: Row[Any]) -> LocalPull:
    return LocalPull(**row._mapping)
