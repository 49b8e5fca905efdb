"""Projects: a documentation repository each, and everything that belongs to it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, bindparam, select, update

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.errors import ErrorDetail, InvalidRequest, NotFound, ProjectNotFound
from copydesk.core.ids import new_id
from copydesk.core.projects.collection_options import CollectionOptions
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.project_rows import delete_project_rows
from copydesk.core.text.display_names import validate_display_name

FORGES = ("local", "github", "gitlab", "gitea", "forgejo")
SELECT_BY_ID = select(projects).where(projects.c.id == bindparam("id"))
SELECT_BY_SITE_ID = select(projects).where(projects.c.site_id == bindparam("site"))
REF_PATTERN = (
    r"^(?![-./])(?!@$)(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))"
    r"[^\x00-\x20\x7f~^:?*\[\\]*[^\x00-\x20\x7f~^:?*\[\\./]$"
)
"""Matches the branch names that git allows. The OpenAPI description contains it too."""
MAX_REF_CHARS = 200


class SiteNotFound(NotFound):
    code = "site_not_found"
    message = "There is no such site."


@dataclass(frozen=True)
class Project:
    id: str
    site_id: str
    name: str
    repository: str
    ref: str
    root: str
    """The folder that holds the documentation; empty if it is the whole repository."""
    forge: str
    model: str | None
    token_env: str | None
    allow_private: bool
    policy: Policy
    collecting: CollectionOptions
    created_at: int


class Projects:
    def __init__(self, database: Database) -> None:
        self.database = database

    def create(self, name: str, *, actor: str, **fields: Any) -> Project:
        return self.add(build_project(name, **fields), actor=actor)

    def add(self, project: Project, *, actor: str) -> Project:
        row = {**vars(project), **_dump_options(project.policy, project.collecting)}
        with self.database.write() as tx:
            tx.execute(projects.insert().values(row))
            audit_log.record(tx, project.id, actor, "project.created", project.id, name=project.name)
        return project

    def change(self, project_id: str, values: Mapping[str, str], *, actor: str) -> Project:
        """Changes fields (CHANGEABLE_FIELDS) and options of a project, given as a person types them."""
        own_values = _validate_fields(
            CHANGEABLE_FIELDS, {name: values[name] for name in values if name in CHANGEABLE_FIELDS}
        )
        policy_values, collecting_values = split_options(
            {name: values[name] for name in values if name not in CHANGEABLE_FIELDS}
        )
        with self.database.write() as tx:
            row = tx.execute(SELECT_BY_ID.with_for_update(), {"id": project_id}).first()
            if row is None:
                raise ProjectNotFound
            old = _project_from_row(row)
            policy = old.policy.with_values(policy_values)
            collecting = old.collecting.with_values(collecting_values)
            new_values = {**own_values, **_dump_options(policy, collecting)}
            tx.execute(update(projects).where(projects.c.id == project_id).values(new_values))
            audit_log.record(tx, project_id, actor, "project.changed", project_id, fields=sorted(values))
        return replace(old, **own_values, policy=policy, collecting=collecting)

    def move(self, moved: Project, *, actor: str, before_write: Callable[[Connection], None]) -> None:
        """Stores the repository, forge and token variable of a moved project.

        `before_write` runs in the same transaction, after the project was locked. If it raises, nothing is written.
        """
        new_values = _validate_fields(
            {
                "repository": validate_repository,
                "forge": lambda forge: validate_forge(forge, moved.repository),
                "token_env": CHANGEABLE_FIELDS["token_env"],
            },
            {"repository": moved.repository, "forge": moved.forge, "token_env": moved.token_env or ""},
        )
        with self.database.write() as tx:
            row = tx.execute(SELECT_BY_ID.with_for_update(), {"id": moved.id}).first()
            if row is None:
                raise ProjectNotFound
            before_write(tx)
            tx.execute(update(projects).where(projects.c.id == moved.id).values(new_values))
            addresses = {"before": row.repository, "after": moved.repository}
            audit_log.record(tx, moved.id, actor, "project.moved", moved.id, **addresses)

    def delete(self, project: Project, *, actor: str, before_write: Callable[[Connection], None]) -> None:
        """Deletes a project with every row that belongs to it, permanently.

        `before_write` runs in the same transaction first. The audit entry is written to the project's log, which is
        kept, and to the service's, which administrators see on the dashboard.
        """
        details = {"name": project.name, "repository": project.repository}
        with self.database.write() as tx, self.database.without_statement_timeout(tx):
            before_write(tx)
            if not delete_project_rows(tx, project.id):
                raise ProjectNotFound
            for log_id in (project.id, audit_log.NO_PROJECT):
                audit_log.record(tx, log_id, actor, "project.deleted", project.id, **details)

    def get(self, project_id: str) -> Project:
        if "\0" in project_id:  # PostgreSQL rejects queries with a null character
            raise ProjectNotFound
        with self.database.read() as tx:
            row = tx.execute(SELECT_BY_ID, {"id": project_id}).first()
        if row is None:
            raise ProjectNotFound
        return _project_from_row(row)

    def all(self) -> list[Project]:
        with self.database.read() as tx:
            return [_project_from_row(row) for row in tx.execute(select(projects).order_by(projects.c.id))]

    def find_same_name(self, project: Project) -> Project | None:
        """Returns another project with this name. Compares as commands look names up: without regard to case."""
        name = project.name.casefold()
        return next((each for each in self.all() if each.name.casefold() == name and each.id != project.id), None)

    def get_by_site_id(self, site_id: str) -> Project:
        """Returns the project of a site. The site id is public: it is in the site's pages."""
        with self.database.read() as tx:
            row = tx.execute(SELECT_BY_SITE_ID, {"site": site_id}).first()
        if row is None:
            raise SiteNotFound
        return _project_from_row(row)


def build_project(
    name: str,
    *,
    repository: str,
    ref: str,
    root: str = "",
    forge: str = "local",
    model: str | None = None,
    token_env: str | None = None,
    allow_private: bool = True,
    policy: Policy = Policy(),  # noqa: B008 - it is frozen
    collecting: CollectionOptions = CollectionOptions(),  # noqa: B008 - it is frozen
) -> Project:
    """Validates the fields and returns a project, not stored yet. InvalidRequest names each invalid field."""
    validators = {
        **CHANGEABLE_FIELDS,
        "repository": validate_repository,
        "forge": lambda forge: validate_forge(forge, repository),
    }
    values = {"name": name, "repository": repository, "ref": ref, "root": root, "forge": forge}
    return Project(
        id=new_id("proj"),
        site_id=new_id("site"),
        **_validate_fields(validators, {**values, "model": model or "", "token_env": token_env or ""}),
        allow_private=allow_private,
        policy=policy,
        collecting=collecting,
        created_at=clock.now(),
    )


def validate_repository(address: str) -> str:
    """Validates a repository's path or file://, http:// or https:// URL, and returns it.

    Refuses URLs with credentials, and URLs for which git would run a program.
    """
    if not address.strip() or any(ord(c) < 32 for c in address):
        raise InvalidRequest("Enter the repository's path or URL.")
    if address.startswith("-") or re.match(r"[A-Za-z0-9+.-]+::", address):
        raise InvalidRequest("This is not a repository URL. Use a path, file:// or https://.")
    if "://" not in address:
        if re.match(r"[^/]+@[^/]+:", address):
            raise InvalidRequest("SSH URLs are not supported. Use https:// and a token.")
        return str(Path(address).expanduser().absolute())
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises ValueError if it is invalid
    except ValueError:
        raise InvalidRequest("This URL is invalid. It should look like https://github.com/owner/name.") from None
    if parts.scheme not in ("file", "http", "https"):
        raise InvalidRequest(f"{parts.scheme}:// is not supported. Use a path, file:// or https://.")
    if "@" in parts.netloc:
        raise InvalidRequest("The URL contains credentials. Remove them, and give the token separately.")
    if parts.query or parts.fragment:
        raise InvalidRequest("The repository URL has a query or a fragment. Remove it.")
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.startswith("/")):
        raise InvalidRequest("A file:// URL must be an absolute path on this machine.")
    if parts.scheme != "file" and not parts.hostname:
        raise InvalidRequest("The URL has no host.")
    return address.rstrip("/")


def validate_ref(ref: str) -> str:
    """Validates a branch name by the rules of git. Refuses names that git could parse as an option."""
    if len(ref) > MAX_REF_CHARS or not re.fullmatch(REF_PATTERN, ref):
        raise InvalidRequest(f"'{ref[:80]}' is not a valid branch name.")
    return ref


def validate_root(folder: str) -> str:
    """Validates a folder of the repository, and removes the slashes around it."""
    folder = folder.strip().strip("/")
    if not folder.isprintable() or any(part in ("", ".", "..", ".git") for part in folder.split("/") if folder):
        raise InvalidRequest(f"'{folder[:80]}' is not a valid folder. Use a path such as docs or site/docs.")
    return folder


def validate_forge(forge: str, repository: str) -> str:
    """Validates the name of a forge, and that a repository on it has a URL."""
    if forge not in FORGES:
        raise InvalidRequest(f"Unknown forge '{forge[:40]}'. Use one of {', '.join(FORGES)}.")
    if forge != "local" and not repository.startswith(("https://", "http://")):
        raise InvalidRequest(f"A repository on {forge} needs its https:// URL.")
    return forge


def _validate_token_variable(name: str | None) -> str | None:
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InvalidRequest("Enter the name of an environment variable that holds the token, not the token itself.")
    return name


CHANGEABLE_FIELDS: dict[str, Callable[[str], str | None]] = {
    "name": lambda name: validate_display_name(name, "A project name"),
    "ref": validate_ref,
    "root": validate_root,
    "model": lambda name: name or None,
    "token_env": lambda name: _validate_token_variable(name or None),
}
"""Validators of the fields that can change after a project was created. Its repository and forge change together,
after a check of the new repository: see `move`."""


FIELDS_IN_REPOSITORY = frozenset({"ref", "root"})
"""The fields that name a place in the repository. When one changes, check that the place exists."""


def _validate_fields(
    validators: Mapping[str, Callable[[str], str | None]], values: Mapping[str, str]
) -> dict[str, Any]:
    validated = {}
    faults = []
    for name, value in values.items():
        try:
            validated[name] = validators[name](value)
        except InvalidRequest as fault:
            faults.append(ErrorDetail(name, fault.message))
    if faults:
        raise InvalidRequest(" ".join(fault.message for fault in faults), details=faults)
    return validated


def split_options(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Splits values into policy and collection options. Unknown names go to the policy, which refuses them."""
    collecting = {name: values[name] for name in values if name in CollectionOptions.model_fields}
    return {name: values[name] for name in values if name not in collecting}, collecting


def _dump_options(policy: Policy, collecting: CollectionOptions) -> dict[str, Any]:
    return {"policy": policy.model_dump(mode="json"), "collecting": collecting.model_dump(mode="json")}


def _project_from_row(row: Row[Any]) -> Project:
    return project_from_values(dict(row._mapping))


def project_from_values(values: dict[str, Any]) -> Project:
    policy = Policy.model_validate(values["policy"])
    collecting = CollectionOptions.model_validate(values["collecting"])
    return Project(**{**values, "policy": policy, "collecting": collecting})
