"""Which forge a project is on, and with what it may speak to it."""

import os
import re
from collections.abc import Mapping
from functools import partial
from math import inf
from urllib.parse import urlsplit

from copydesk.core.projects.projects import Project
from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.api_client import Http
from copydesk.jobs.publish.forges.forge import Credentials, Forge
from copydesk.jobs.publish.forges.gitea import Gitea
from copydesk.jobs.publish.forges.github import HEADERS, GitHub
from copydesk.jobs.publish.forges.gitlab import GitLab

REMOTE = ("github", "gitlab", "gitea", "forgejo")
KNOWN_HOSTS = {"github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "forgejo", "gitea.com": "gitea"}
TOKEN = re.compile(r"[!-~]+")
PREFIXES = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1", "forgejo": "/api/v1"}


def forge_of(address: str) -> str:
    """The forge of a well-known host; `local` for paths and all other hosts."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "local"
    host = parts.hostname if parts.scheme in ("http", "https") else None
    return KNOWN_HOSTS.get((host or "").removeprefix("www."), "local")


def credentials_of(project: Project, secrets: Mapping[str, str]) -> Credentials:
    """From the environment variable that the project names, else from its sealed secrets."""
    token = secrets.get("forge_token")
    if project.token_env is not None:
        token = os.environ.get(project.token_env, "").strip()
        if not token:
            message = f"The environment variable {project.token_env}, which holds the token, is not set."
            raise ForgeRefused(message, Reason.REPOSITORY_ERROR)
    if token is not None and not TOKEN.fullmatch(token):  # a header would not take it, and say so with the token in it
        raise ForgeRefused("The token has blanks or signs that no token has; set it anew.", Reason.REPOSITORY_ERROR)
    return Credentials(token=token, app_id=project.policy.app_id, app_key=secrets.get("app_key"))


def forge_for(project: Project, credentials: Credentials, deadline: float = inf) -> Forge:
    """ForgeRefused when the address names no repository of such a forge, or when credentials are missing.

    No call outlives the deadline, which is in the time of `time.monotonic`.
    """
    base, repository = api_of(project.forge, project.repository)
    reach = partial(Http, base, allow_private=project.allow_private, deadline=deadline)
    if project.forge == "github" and credentials.app_id and credentials.app_key:
        from copydesk.jobs.publish.forges.github_app import AppTokens

        tokens = AppTokens(reach, repository, credentials.app_id, credentials.app_key)
        http = reach(lambda: f"Bearer {tokens.token()}", headers=HEADERS)
        return GitHub(http, repository, tokens.token, lambda: tokens.give_back(http))
    token = credentials.token
    if not token:
        raise ForgeRefused(
            f"A project on {project.forge} needs a token: seal it as forge_token, or name its environment variable.",
            Reason.REPOSITORY_ERROR,
        )
    if project.forge == "github":
        return GitHub(reach(lambda: f"Bearer {token}", headers=HEADERS), repository, lambda: token)
    if project.forge == "gitlab":
        return GitLab(reach(lambda: f"Bearer {token}", headers={}), repository, token)
    return Gitea(reach(lambda: f"token {token}", headers={}), repository, token)


def api_of(forge: str, address: str) -> tuple[str, str]:
    """The API's base address and the repository's full name."""
    parts = urlsplit(address)
    name = re.sub(r"\.git$", "", parts.path.strip("/"))
    depth = name.count("/") + 1
    fits = depth >= 2 if forge == "gitlab" else depth == 2
    if forge not in PREFIXES or parts.scheme not in ("http", "https") or not fits or "//" in name:
        example = "https://gitlab.com/group/name" if forge == "gitlab" else "https://github.com/owner/name"
        message = f"{address} is not a repository's address on {forge}; it looks like {example}."
        raise ForgeRefused(message, Reason.REPOSITORY_ERROR)
    if forge == "github" and parts.hostname in ("github.com", "www.github.com"):
        return "https://api.github.com", name
    return f"{parts.scheme}://{parts.netloc}{PREFIXES[forge]}", name
