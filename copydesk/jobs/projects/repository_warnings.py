"""Finds what is unusual about a project's repository: it can be used, but not as a person may expect."""

from copydesk.core.projects.projects import Project
from copydesk.jobs.publish.git.local_repository import build_merge_command, find_work_tree


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
