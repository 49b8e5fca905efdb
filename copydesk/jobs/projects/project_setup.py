"""New projects: everything is checked and the repository looked at before anything is kept; the token is sealed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from copydesk.core.projects.collection_options import Collecting
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.projects import Project, Projects, choices, new_project
from copydesk.core.projects.sealed_secrets import Secrets
from copydesk.jobs.projects.option_checks import check_choices
from copydesk.jobs.publish.forges.registry import forge_of
from copydesk.jobs.publish.repository_access import PATIENCE, usable_branch


@dataclass(frozen=True)
class Wanted:
    name: str
    repository: str
    ref: str | None = None
    """None for the repository's default branch."""
    root: str = ""
    forge: str | None = None
    """None for what the address tells."""
    model: str | None = None
    token_env: str | None = None
    token: str | None = field(default=None, repr=False)
    allow_private: bool = True
    choices: Mapping[str, str] = field(default_factory=dict)


def found_project(
    projects: Projects,
    secrets: Secrets,
    wanted: Wanted,
    *,
    look: bool = True,
    seconds: float = PATIENCE,
    actor: str,
) -> Project:
    """InvalidRequest or RepositoryFailed says what is in the way; then nothing was kept."""
    check_choices({**wanted.choices, "model": wanted.model or ""})
    of_policy, of_collecting = choices(wanted.choices)
    project = new_project(
        wanted.name,
        repository=wanted.repository,
        ref=wanted.ref or "main",
        root=wanted.root,
        forge=wanted.forge or forge_of(wanted.repository),
        model=wanted.model,
        token_env=wanted.token_env,
        allow_private=wanted.allow_private,
        policy=Policy().changed(of_policy),
        collecting=Collecting().changed(of_collecting),
    )
    if look:
        known = {"forge_token": wanted.token} if wanted.token else {}
        project = replace(project, ref=usable_branch(project, known, wanted.ref, seconds))
    projects.add(project, actor=actor)
    if wanted.token is not None:
        secrets.set(project.id, "forge_token", wanted.token, actor=actor)
    return project
