"""Creates projects. All values and the repository are checked before anything is stored; the token is sealed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from copydesk.core.errors import ErrorDetail, InvalidRequest
from copydesk.core.projects.collection_options import CollectionOptions
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.projects import Project, Projects, build_project, split_options
from copydesk.core.projects.sealed_secrets import SealedSecrets
from copydesk.jobs.projects.option_checks import validate_options
from copydesk.jobs.publish.forges.registry import detect_forge
from copydesk.jobs.publish.repository_access import ACCESS_TIMEOUT_SECONDS, find_usable_repository


class ProjectNameTaken(InvalidRequest):
    """Another project has this name, which commands could then not tell from the new one."""

    def __init__(self, existing: Project) -> None:
        message = f"There is already a project named '{existing.name[:80]}': {existing.id}."
        super().__init__(message, details=[ErrorDetail("name", message)])


@dataclass(frozen=True)
class NewProject:
    name: str
    repository: str
    ref: str | None = None
    """None means the repository's default branch."""
    root: str = ""
    forge: str | None = None
    """None means that the forge is detected from the repository's URL."""
    model: str | None = None
    token_env: str | None = None
    token: str | None = field(default=None, repr=False)
    allow_private: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    allow_same_name: bool = False


def create_project(
    projects: Projects,
    secrets: SealedSecrets,
    new: NewProject,
    *,
    verify_repository: bool = True,
    seconds: float = ACCESS_TIMEOUT_SECONDS,
    actor: str,
) -> Project:
    """Creates a project. Raises InvalidRequest or RepositoryFailed, before anything is stored, when a check fails."""
    validate_options({**new.options, "model": new.model or ""})
    policy_values, collection_values = split_options(new.options)
    project = build_project(
        new.name,
        repository=new.repository,
        ref=new.ref or "main",
        root=new.root,
        forge=new.forge or detect_forge(new.repository),
        model=new.model,
        token_env=new.token_env,
        allow_private=new.allow_private,
        policy=Policy().with_values(policy_values),
        collecting=CollectionOptions().with_values(collection_values),
    )
    existing = None if new.allow_same_name else projects.find_same_name(project)
    if existing is not None:
        raise ProjectNameTaken(existing)
    if verify_repository:
        project_secrets = {"forge_token": new.token} if new.token else {}
        project = find_usable_repository(project, project_secrets, new.ref, seconds)
    projects.add(project, actor=actor)
    if new.token is not None:
        secrets.set(project.id, "forge_token", new.token, actor=actor)
    return project
