"""Lists the repositories of a project that its automations can watch."""

from collections.abc import Mapping, Sequence
from functools import partial

from copydesk.automations.triggers.looks import WatchedRepository
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.jobs.projects.context_mirrors import ContextAccess, ContextRepository
from copydesk.jobs.publish.git.mirror import Mirror, create_git
from copydesk.jobs.publish.repository_access import create_token_source
from copydesk.jobs.workspace.repository_limits import RepositoryLimits


def list_project_repositories(
    project: Project, secrets: Mapping[str, str], contexts: Sequence[ContextRepository], settings: Settings
) -> list[WatchedRepository]:
    """Returns the project's own repository, and its context repositories."""
    limits = RepositoryLimits.from_settings(settings)
    mirrors = settings.mirrors_folder
    token = create_token_source(project, secrets)
    own = WatchedRepository(
        name="",
        address=project.repository,
        branch=project.ref,
        open_git=lambda: create_git(project, token, limits=limits),
        open_mirror=lambda: Mirror.for_project(mirrors, project, token, limits=limits),
        forge=project.forge,
    )
    accesses = [ContextAccess.build(project, secrets, context) for context in contexts]
    return [own] + [
        WatchedRepository(
            name=access.context.name,
            address=access.context.repository,
            branch=access.context.ref,
            open_git=partial(access.open_git, limits),
            open_mirror=partial(access.open_mirror, mirrors, limits),
            forge=access.context.forge,
        )
        for access in accesses
    ]
