"""Prints a project: as facts for people, or as JSON."""

from typing import TYPE_CHECKING, Any

import typer

from copydesk.cli.output import camelize_names, print_facts, print_json
from copydesk.core.clock import format_iso

if TYPE_CHECKING:
    from copydesk.core.projects.projects import Project


def print_project(project: "Project", json: bool, quiet: bool = False) -> None:
    if quiet:
        typer.echo(project.id)
        return
    if json:
        print_json(project_to_json(project))
        return
    facts = {
        "project": project.id,
        "site": project.site_id,
        "name": project.name,
        "repository": project.repository,
        "ref": project.ref,
        "root": project.root,
        "forge": project.forge,
        "model": project.model,
        "token_env": project.token_env,
        "private addresses": "allowed" if project.allow_private else "refused",
        "created": format_iso(project.created_at),
    }
    print_facts(facts | project.policy.model_dump(mode="json") | project.collecting.model_dump(mode="json"))


def project_to_json(project: "Project") -> dict[str, Any]:
    return {
        "projectId": project.id,
        "siteId": project.site_id,
        "name": project.name,
        "repository": project.repository,
        "ref": project.ref,
        "root": project.root,
        "forge": project.forge,
        "model": project.model,
        "tokenEnv": project.token_env,
        "allowPrivate": project.allow_private,
        "policy": camelize_names(project.policy.model_dump(mode="json")),
        "collecting": camelize_names(project.collecting.model_dump(mode="json")),
        "createdAt": format_iso(project.created_at),
    }
