"""Reopens the closed pull request of a job, on its forge or as a page of Copydesk, and unarchives the job."""

from copydesk.core import audit_log
from copydesk.core.errors import RequestError
from copydesk.core.projects.projects import Project
from copydesk.jobs.job import Job, JobFailed, RepositoryFailed
from copydesk.jobs.publish.errors import ForgeUnavailable
from copydesk.jobs.publish.forges.local import LocalPulls, PullConflict
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.registry import REMOTE_FORGES, SecretsReader, open_forge
from copydesk.jobs.publish.git.mirror import Mirror


class ReopenFailed(RequestError):
    status, code = 502, "repository_error"
    message = "The pull request could not be reopened."


def reopen_pull_request(
    pulls: LocalPulls, project: Project, secrets: SecretsReader, mirror: Mirror, job: Job, actor: str
) -> None:
    """Reopens the pull request of a job. Raises PullConflict if it has none, was merged, or lacks its branch.

    `mirror` is asked for the branch of a local pull request; a remote forge looks for the branch itself.
    """
    number = parse_pull_number(job.pr_link or "")
    if number is None:
        raise PullConflict("The job has no pull request.")
    if job.repository != project.repository:
        raise PullConflict("The project's repository has changed since this pull request was opened.")
    try:
        if project.forge in REMOTE_FORGES:
            _reopen_on_forge(project, secrets, job, number)
        else:
            pull = pulls.get_pull(project.id, number)
            if mirror.find_head(job.branch) is None:
                raise PullConflict(f"The branch {job.branch} was deleted, so the pull request cannot be reopened.")
            pulls.reopen(pull)
    except (RepositoryFailed, JobFailed, ForgeUnavailable) as failure:
        raise ReopenFailed(str(failure)) from None
    pulls.jobs.unarchive(project.id, job.id, "open")
    with pulls.database.write() as tx:
        audit_log.record(tx, project.id, actor, "pull.reopened", str(number), branch=job.branch)


def _reopen_on_forge(project: Project, secrets: SecretsReader, job: Job, number: int) -> None:
    with open_forge(project, secrets.all(project.id)) as forge:
        pull = forge.get_pull(number)
        if pull.branch != job.branch:
            raise PullConflict(f"Pull request {number} is not from the branch of this job.")
        if pull.state == "merged":
            raise PullConflict(f"Pull request {number} was merged.")
        if pull.state == "closed":
            forge.reopen_pull(number)
