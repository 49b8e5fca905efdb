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
from copydesk.jobs.publish.forges.api_client import ApiClient
from copydesk.jobs.publish.forges.forge import Credentials, Forge
from copydesk.jobs.publish.forges.gitea import Gitea
from copydesk.jobs.publish.forges.github import GITHUB_HEADERS, GitHub
from copydesk.jobs.publish.forges.gitlab import GitLab

REMOTE_FORGES = ("github", "gitlab", "gitea", "forgejo")
KNOWN_HOSTS = {"github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "forgejo", "gitea.com": "gitea"}
TOKEN_PATTERN = re.compile(r"[!-~]+")
API_PATHS = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1", "forgejo": "/api/v1"}


def detect_forge(address: str) -> str:
    """The forge of a well-known host; `local` for paths and all other hosts."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "local"
    host = parts.hostname if parts.scheme in ("http", "https") else None
    return KNOWN_HOSTS.get((host or "").removeprefix("www."), "local")


def load_credentials(project: Project, secrets: Mapping[str, str]) -> Credentials:
    """From the environment variable that the project names, else from its sealed secrets."""
    token = secrets.get("forge_token")
    if project.token_env is not None:
        token = os.environ.get(project.token_env, "").strip()
        if not token:
            message = f"The environment variable {project.token_env}, which holds the token, is not set."
            raise ForgeRefused(message, Reason.REPOSITORY_ERROR)
    if token is not None and not TOKEN_PATTERN.fullmatch(
        token
    ):  # a header would not take it, and say so with the token in it
        raise ForgeRefused("The token has blanks or signs that no token has; set it anew.", Reason.REPOSITORY_ERROR)
    return Credentials(token=token, app_id=project.policy.app_id, app_key=secrets.get("app_key"))


def create_forge(project: Project, credentials: Credentials, deadline: float = inf) -> Forge:
    """ForgeRefused when the address names no repository of such a forge, or when credentials are missing.

    No call outlives the deadline, which is in the time of `time.monotonic`.
    """
    api_url, repository = split_repository_url(project.forge, project.repository)
    build_client = partial(ApiClient, api_url, allow_private=project.allow_private, deadline=deadline)
    if project.forge == "github" and credentials.app_id and credentials.app_key:
        from copydesk.jobs.publish.forges.github_app import AppTokens

        tokens = AppTokens(build_client, repository, credentials.app_id, credentials.app_key)
        http = build_client(lambda: f"Bearer {tokens.token()}", headers=GITHUB_HEADERS)
        return GitHub(http, repository, tokens.token, lambda: tokens.revoke(http))
    token = credentials.token
    if not token:
        raise ForgeRefused(
            f"A project on {project.forge} needs a token: seal it as forge_token, or name its environment variable.",
            Reason.REPOSITORY_ERROR,
        )
    if project.forge == "github":
        return GitHub(build_client(lambda: f"Bearer {token}", headers=GITHUB_HEADERS), repository, lambda: token)
    if project.forge == "gitlab":
        return GitLab(build_client(lambda: f"Bearer {token}", headers={}), repository, token)
    return Gitea(build_client(lambda: f"token {token}", headers={}), repository, token)


def split_repository_url(forge: str, address: str) -> tuple[str, str]:
    """The API's base address and the repository's full name."""
    parts = urlsplit(address)
    name = re.sub(r"\.git$", "", parts.path.strip("/"))
    depth = name.count("/") + 1
    has_valid_depth = depth >= 2 if forge == "gitlab" else depth == 2
    if forge not in API_PATHS or parts.scheme not in ("http", "https") or not has_valid_depth or "//" in name:
        example = "https://gitlab.com/group/name" if forge == "gitlab" else "https://github.com/owner/name"
        message = f"{address} is not a repository's address on {forge}; it looks like {example}."
        raise ForgeRefused(message, Reason.REPOSITORY_ERROR)
    if forge == "github" and parts.hostname in ("github.com", "www.github.com"):
        return "https://api.github.com", name
    return f"{parts.scheme}://{parts.netloc}{API_PATHS[forge]}", name
