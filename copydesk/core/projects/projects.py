"""Projects: a documentation repository, and everything that is scoped to it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Row, bindparam, select, update

from copydesk.core import audit_log as audit
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.errors import Detail, InvalidRequest, NotFound, ProjectNotFound
from copydesk.core.ids import new_id
from copydesk.core.projects.collection_options import Collecting
from copydesk.core.projects.policy import Policy

FORGES = ("local", "github", "gitlab", "gitea", "forgejo")
BY_ID = select(projects).where(projects.c.id == bindparam("id"))
BY_SITE = select(projects).where(projects.c.site_id == bindparam("site"))
REF = (
    r"^(?![-./])(?!@$)(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))"
    r"[^\x00-\x20\x7f~^:?*\[\\]*[^\x00-\x20\x7f~^:?*\[\\./]$"
)
"""What git takes for a branch's name, as a regular expression that the API's description can carry."""
LONGEST_REF = 200


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
    """The folder that holds the documentation; empty when it is the whole repository."""
    forge: str
    model: str | None
    token_env: str | None
    allow_private: bool
    policy: Policy
    collecting: Collecting
    created_at: int


class Projects:
    def __init__(self, database: Database) -> None:
        self.database = database

    def create(self, name: str, *, actor: str, **wanted: Any) -> Project:
        return self.add(new_project(name, **wanted), actor=actor)

    def add(self, project: Project, *, actor: str) -> Project:
        row = {**vars(project), **_chosen(project.policy, project.collecting)}
        with self.database.write() as tx:
            tx.execute(projects.insert().values(row))
            audit.record(tx, project.id, actor, "project.created", project.id, name=project.name)
        return project

    def change(self, project_id: str, values: Mapping[str, str], *, actor: str) -> Project:
        """Changes a project's own fields (CHANGEABLE) and its choices, given as a person types them."""
        own = _checked(CHANGEABLE, {name: values[name] for name in values if name in CHANGEABLE})
        of_policy, of_collecting = choices({name: values[name] for name in values if name not in CHANGEABLE})
        with self.database.write() as tx:
            found = tx.execute(
                BY_ID if self.database.is_sqlite else BY_ID.with_for_update(), {"id": project_id}
            ).first()
            if found is None:
                raise ProjectNotFound
            old = _project(found)
            policy, collecting = old.policy.changed(of_policy), old.collecting.changed(of_collecting)
            row = {**own, **_chosen(policy, collecting)}
            tx.execute(update(projects).where(projects.c.id == project_id).values(row))
            audit.record(tx, project_id, actor, "project.changed", project_id, fields=sorted(values))
        return replace(old, **own, policy=policy, collecting=collecting)

    def get(self, project_id: str) -> Project:
        if "\0" in project_id:  # which PostgreSQL cannot even be asked for
            raise ProjectNotFound
        with self.database.read() as tx:
            row = tx.execute(BY_ID, {"id": project_id}).first()
        if row is None:
            raise ProjectNotFound
        return _project(row)

    def all(self) -> list[Project]:
        with self.database.read() as tx:
            return [_project(row) for row in tx.execute(select(projects).order_by(projects.c.id))]

    def of_site(self, site_id: str) -> Project:
        """The project of a site; its id is public, and stands in the site's pages."""
        with self.database.read() as tx:
            row = tx.execute(BY_SITE, {"site": site_id}).first()
        if row is None:
            raise SiteNotFound
        return _project(row)


def new_project(
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
    collecting: Collecting = Collecting(),  # noqa: B008 - it is frozen
) -> Project:
    """Checked, but not stored; InvalidRequest names each field that is wrong."""
    checks = {**CHANGEABLE, "repository": checked_repository, "forge": lambda forge: _checked_forge(forge, repository)}
    given = {"name": name, "repository": repository, "ref": ref, "root": root, "forge": forge}
    return Project(
        id=new_id("proj"),
        site_id=new_id("site"),
        **_checked(checks, {**given, "model": model or "", "token_env": token_env or ""}),
        allow_private=allow_private,
        policy=policy,
        collecting=collecting,
        created_at=clock.now(),
    )


def checked_repository(address: str) -> str:
    """A path, file://, http:// or https:// address; never one that carries a secret or names a program to run."""
    if not address.strip() or any(ord(c) < 32 for c in address):
        raise InvalidRequest("Name the repository by a path or an address.")
    if address.startswith("-") or re.match(r"[A-Za-z0-9+.-]+::", address):
        raise InvalidRequest("This is not a repository's address: use a path, file:// or https://.")
    if "://" not in address:
        if re.match(r"[^/]+@[^/]+:", address):
            raise InvalidRequest("SSH addresses are not supported: use https:// and a token.")
        return str(Path(address).expanduser().absolute())
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018 - read to be checked
    except ValueError:
        raise InvalidRequest("This address cannot be read; it looks like https://github.com/owner/name.") from None
    if parts.scheme not in ("file", "http", "https"):
        raise InvalidRequest(f"{parts.scheme}:// is not supported: use a path, file:// or https://.")
    if "@" in parts.netloc:
        raise InvalidRequest("The address contains credentials; leave them out and name the token's variable instead.")
    if parts.query or parts.fragment:
        raise InvalidRequest("The repository's address has a query or a fragment; leave it out.")
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.startswith("/")):
        raise InvalidRequest("A file:// address names an absolute path on this machine.")
    if parts.scheme != "file" and not parts.hostname:
        raise InvalidRequest("The address names no host.")
    return address.rstrip("/")


def checked_ref(ref: str) -> str:
    """A branch's name as git itself allows it, and never one that git could take for an option."""
    if len(ref) > LONGEST_REF or not re.fullmatch(REF, ref):
        raise InvalidRequest(f"'{ref[:80]}' is not a branch's name.")
    return ref


def checked_root(folder: str) -> str:
    """A folder of the repository, without the slashes around it."""
    folder = folder.strip().strip("/")
    if not folder.isprintable() or any(part in ("", ".", "..", ".git") for part in folder.split("/") if folder):
        raise InvalidRequest(f"'{folder[:80]}' is not a folder of a repository; write it like docs or site/docs.")
    return folder


def _checked_forge(forge: str, repository: str) -> str:
    if forge not in FORGES:
        raise InvalidRequest(f"A forge is one of {', '.join(FORGES)}, not '{forge[:40]}'.")
    if forge != "local" and not repository.startswith(("https://", "http://")):
        raise InvalidRequest(f"A repository on {forge} is named by its https:// address.")
    return forge


def _checked_variable(name: str | None) -> str | None:
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InvalidRequest("The token is given as the name of an environment variable.")
    return name


def _checked_name(name: str) -> str:
    name = name.strip()
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise InvalidRequest("A project's name has 1 to 200 printable characters.")
    return name


CHANGEABLE: dict[str, Callable[[str], str | None]] = {
    "name": _checked_name,
    "ref": checked_ref,
    "root": checked_root,
    "model": lambda name: name or None,
    "token_env": lambda name: _checked_variable(name or None),
}
"""What may change after a project was made; its repository and forge may not, since its jobs refer to them."""


def _checked(checks: Mapping[str, Callable[[str], str | None]], values: Mapping[str, str]) -> dict[str, Any]:
    checked, faults = {}, []
    for name, value in values.items():
        try:
            checked[name] = checks[name](value)
        except InvalidRequest as fault:
            faults.append(Detail(name, fault.message))
    if faults:
        raise InvalidRequest(" ".join(fault.message for fault in faults), details=faults)
    return checked


def choices(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What of this is for the policy, which refuses unknown names, and what for the collecting."""
    collecting = {name: values[name] for name in values if name in Collecting.model_fields}
    return {name: values[name] for name in values if name not in collecting}, collecting


def _chosen(policy: Policy, collecting: Collecting) -> dict[str, Any]:
    return {"policy": policy.model_dump(mode="json"), "collecting": collecting.model_dump(mode="json")}


def _project(row: Row[Any]) -> Project:
    return stored_project(dict(row._mapping))


def stored_project(row: dict[str, Any]) -> Project:
    policy, collecting = Policy.model_validate(row["policy"]), Collecting.model_validate(row["collecting"])
    return Project(**{**row, "policy": policy, "collecting": collecting})
