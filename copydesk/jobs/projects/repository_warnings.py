"""Finds what is unusual about a project's repository: it can be used, but not as a person may expect."""

from collections.abc import Mapping

from copydesk.core.projects.projects import Project
from copydesk.jobs.job import JobFailed
from copydesk.jobs.publish.git.local_repository import build_merge_command, find_work_tree
from copydesk.jobs.publish.repository_access import ACCESS_TIMEOUT_SECONDS, find_usable_branch, has_folder


def find_repository_warnings(
    project: Project, secrets: Mapping[str, str], seconds: float = ACCESS_TIMEOUT_SECONDS
) -> list[str]:
    """Checks that the project's branch and documentation folder exist. Returns a sentence for each problem.

    A project may be ahead of its repository, so these are not errors. A repository that cannot be reached is one
    problem, and hides the other.
    """
    try:
        find_usable_branch(project, secrets, project.ref, seconds)
    except JobFailed as failure:
        return [str(failure)]
    return find_folder_warnings(project, secrets, seconds)


def find_folder_warnings(
    project: Project, secrets: Mapping[str, str], seconds: float = ACCESS_TIMEOUT_SECONDS
) -> list[str]:
    """Checks only that the documentation folder exists, for a project whose branch was just checked."""
    try:
        if not project.root or has_folder(project, secrets, project.root, seconds):
            return []
    except JobFailed as failure:
        return [str(failure)]
    return [describe_missing_folder(project.root, project.ref)]


def describe_missing_folder(folder: str, branch: str) -> str:
    return (
        f"There is no folder {folder} on the branch {branch}, so jobs find no documentation. Correct the documentation "
        f"folder in the project's settings (root), or ask a job to create the folder {folder}."
    )


def describe_checked_out_branch(project: Project) -> str | None:
    """Returns how to merge pull requests if the project's branch is checked out in a work tree, else None.

    Copydesk never moves such a branch, because the files of the work tree would no longer match it.
    """
    work_tree = find_work_tree(project.repository, project.ref) if project.forge == "local" else None
    if work_tree is None:
        return None
    command = build_merge_command(work_tree, f"{project.policy.branch_prefix}JOB")
    return (
        f"The branch {project.ref} is checked out in {work_tree}, so Copydesk does not move it. "
        f"Merge pull requests there with git: {command}"
    )
