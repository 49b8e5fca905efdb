"""Detects a project's forge, loads its credentials and creates its client."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Protocol
from urllib.parse import urlsplit

from copydesk.core.projects.projects import Project
from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Credentials, Forge
from copydesk.jobs.publish.forges.rest.api_client import ApiClient
from copydesk.jobs.publish.forges.rest.gitea import Gitea
from copydesk.jobs.publish.forges.rest.github import GITHUB_HEADERS, GitHub
from copydesk.jobs.publish.forges.rest.gitlab import GitLab
from copydesk.jobs.publish.git.plain_http import refuse_plain_http
from copydesk.jobs.publish.git.token_variable import read_token_variable


class SecretsReader(Protocol):
    def all(self, project_id: str) -> Mapping[str, str]: ...


REMOTE_FORGES = ("github", "gitlab", "gitea", "forgejo")
KNOWN_HOSTS = {"github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "forgejo", "gitea.com": "gitea"}
TOKEN_PATTERN = re.compile(r"[!-~]+")
GITEA_PAGE_PATTERN = re.compile(r"[^/]+/[^/]+/(?:src|raw|pulls|issues|commits)/")
"""The beginning of a path to a page of a repository, which people may copy by mistake."""
API_PATHS = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1", "forgejo": "/api/v1"}


def detect_forge(address: str) -> str:
    """Returns the forge of a well-known host, or `local` for paths and all other hosts."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "local"
    host = parts.hostname if parts.scheme in ("http", "https") else None
    return KNOWN_HOSTS.get((host or "").removeprefix("www."), "local")


def load_credentials(project: Project, secrets: Mapping[str, str]) -> Credentials:
    """Returns the project's credentials: its environment variable, else its stored secrets.

    Raises RepositoryFailed if the variable is not set, and ForgeRefused if the token is invalid.
    """
    token = secrets.get("forge_token") if project.token_env is None else read_token_variable(project.token_env)
    # The HTTP client's error about an invalid header would contain the token.
    if token is not None and not TOKEN_PATTERN.fullmatch(token):
        message = "The token contains spaces or other invalid characters. Set it again."
        raise ForgeRefused(message, Reason.REPOSITORY_ERROR)
    return Credentials(token=token, app_id=project.policy.app_id, app_key=secrets.get("app_key"))


@contextmanager
def open_forge(
    project: Project, secrets: Mapping[str, str], deadline: float = inf, *, read_only: bool = False
) -> Iterator[Forge]:
    """Yields the client of the project's remote forge. Revokes minted tokens at the end.

    With `read_only`, the token of a GitHub App can only fetch.
    """
    forge = create_forge(project, load_credentials(project, secrets), deadline, read_only=read_only)
    try:
        yield forge
    finally:
        forge.close()


def create_forge(
    project: Project, credentials: Credentials, deadline: float = inf, *, read_only: bool = False
) -> Forge:
    """Creates the client. Raises ForgeRefused if the URL is not a repository's or if credentials are missing.

    Requests end by the deadline, which is in the time of `time.monotonic`.
    """
    api_url, repository = split_repository_url(project.forge, project.repository, project.policy.api_url)
    build_client = partial(ApiClient, api_url, allow_private=project.allow_private, deadline=deadline)
    for url in (api_url, project.repository):
        refuse_plain_http(url, allow_private=project.allow_private)
    if project.forge == "github" and credentials.app_id and credentials.app_key:
        from copydesk.jobs.publish.forges.rest.github_app import AppTokens

        has_team_reviewers = any("/" in name for name in project.policy.reviewers)
        tokens = AppTokens(
            build_client,
            repository,
            credentials.app_id,
            credentials.app_key,
            with_teams=has_team_reviewers and not read_only,
            read_only=read_only,
        )
        http = build_client(
            lambda: f"Bearer {tokens.token()}", headers=GITHUB_HEADERS, is_token_new=lambda: tokens.is_new
        )
        return GitHub(http, repository, tokens.token, lambda: tokens.revoke(http))
    token = credentials.token
    if not token:
        raise ForgeRefused(
            f"A project on {project.forge} needs a token. Store it as the secret forge_token, or specify the "
            "environment variable that contains it.",
            Reason.REPOSITORY_ERROR,
        )
    if project.forge == "github":
        return GitHub(build_client(lambda: f"Bearer {token}", headers=GITHUB_HEADERS), repository, lambda: token)
    if project.forge == "gitlab":
        return GitLab(build_client(lambda: f"Bearer {token}", headers={}), repository, lambda: token)
    return Gitea(build_client(lambda: f"token {token}", headers={}), repository, lambda: token)


def split_repository_url(forge: str, address: str, api_url: str | None = None) -> tuple[str, str]:
    """Returns the API's base URL and the repository's full name. Raises ForgeRefused for other URLs.

    `api_url` overrides the API's URL; a forge below a path, such as `/git`, is recognized by it.
    """
    parts = urlsplit(address)
    path = parts.path
    if api_url is not None:
        _validate_api_host(api_url, parts.hostname or "")
        forge_path = urlsplit(api_url).path.removesuffix(API_PATHS.get(forge, ""))
        path = path.removeprefix(forge_path) if path.startswith(f"{forge_path}/") else path
    base_path, name = _split_base_path(forge, re.sub(r"\.git$", "", path.strip("/")))
    depth = name.count("/") + 1
    has_valid_depth = depth >= 2 if forge == "gitlab" else depth == 2
    if forge not in API_PATHS or parts.scheme not in ("http", "https") or not has_valid_depth or "//" in parts.path:
        example = "https://gitlab.com/group/name" if forge == "gitlab" else "https://github.com/owner/name"
        message = f"{address} is not the URL of a repository on {forge}. A valid URL looks like {example}."
        raise ForgeRefused(message, Reason.REPOSITORY_ERROR)
    if api_url is not None:
        return api_url, name
    if forge == "github" and parts.hostname in ("github.com", "www.github.com"):
        return "https://api.github.com", name
    if forge == "github" and (parts.hostname or "").endswith(".ghe.com"):
        return f"{parts.scheme}://api.{parts.netloc}", name
    return f"{parts.scheme}://{parts.netloc}{base_path}{API_PATHS[forge]}", name


def _split_base_path(forge: str, path: str) -> tuple[str, str]:
    """Splits the path of a repository's URL into the path of the server, such as `/forge`, and the repository's name.

    Only Gitea's and Forgejo's repositories have names of exactly two parts, so only there the rest is the server's.
    """
    if forge not in ("gitea", "forgejo") or GITEA_PAGE_PATTERN.match(path):
        return "", path
    parts = path.split("/")
    return "".join(f"/{part}" for part in parts[:-2]), "/".join(parts[-2:])


def _validate_api_host(api_url: str, repository_host: str) -> None:
    """Raises ForgeRefused for an API on another host, which must not get the token of this repository's host."""
    host = urlsplit(api_url).hostname or ""
    if host != repository_host and not host.endswith(f".{repository_host}"):
        raise ForgeRefused(
            f"The setting api_url names {host}, but the repository is on {repository_host}. The API must be on the "
            "same host or a subdomain of it, because it gets the token.",
            Reason.REPOSITORY_ERROR,
        )
