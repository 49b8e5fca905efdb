"""Tokens of a GitHub App, minted for one job and one repository with only the permissions that publishing needs."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import Any
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import BaseModel

from copydesk.core.errors import UserFacingError
from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused, ForgeUnavailable
from copydesk.jobs.publish.forges.rest.api_client import ApiClient
from copydesk.jobs.publish.forges.rest.github import GITHUB_HEADERS

REQUIRED_PERMISSIONS = {"contents": "write", "pull_requests": "write"}
READ_PERMISSIONS = {"contents": "read"}
"""What fetching a context repository needs."""
TEAM_PERMISSIONS = {"members": "read"}
"""What a request for a review by a team needs, besides REQUIRED_PERMISSIONS."""
NEW_TOKEN_SECONDS = 60.0
"""How long after its creation some of GitHub's servers may not know a token yet."""
NEW_TOKEN_DELAYS_SECONDS = (1.0, 2.0, 4.0, 8.0)
CLOCK_ERROR_MARKS = ("'iat'", "'exp'")
RENEW_BEFORE_SECONDS = 10 * 60.0
JWT_LIFETIME_SECONDS = 9 * 60
CLOCK_SKEW_SECONDS = 60


class Installation(BaseModel):
    id: int
    permissions: dict[str, str] = {}


class InstallationToken(BaseModel):
    token: str
    expires_at: datetime


class AppTokens:
    """Mints and revokes tokens of the App's installation on one repository. The private key only signs JWTs."""

    def __init__(
        self,
        build_client: Callable[..., ApiClient],
        repository: str,
        app_id: str,
        app_key: str,
        *,
        with_teams: bool = False,
        read_only: bool = False,
    ) -> None:
        """Prepares tokens. `with_teams` also requests the permission for reviews by teams, if the App has it.

        With `read_only`, the tokens can fetch the repository and do nothing else.
        """
        self._build_client = build_client
        self._with_teams = with_teams
        self._permissions = READ_PERMISSIONS if read_only else REQUIRED_PERMISSIONS
        self._created_at = -inf
        self.repository = repository
        self.app_id = app_id
        self._key = _parse_rsa_key(app_key)
        self._http = build_client(self._sign_authorization, headers=GITHUB_HEADERS)
        self._installation_token: InstallationToken | None = None

    def token(self) -> str:
        if (
            self._installation_token is None
            or self._installation_token.expires_at.timestamp() < time.time() + RENEW_BEFORE_SECONDS
        ):
            installation_token = self._create_token()
            self._wait_until_valid(installation_token.token)
            self._installation_token = installation_token
        return self._installation_token.token

    @property
    def is_new(self) -> bool:
        """Whether the token was created so recently that some servers may not know it yet."""
        return time.monotonic() < self._created_at + NEW_TOKEN_SECONDS

    def revoke(self, http: ApiClient) -> None:
        """Revokes the token. If that fails, the token expires within an hour."""
        if self._installation_token is not None:
            with suppress(UserFacingError):
                http.request(object, "DELETE", "/installation/token")
            self._installation_token = None
        self._http.close()

    def _create_token(self) -> InstallationToken:
        name = self.repository.partition("/")[2]
        try:
            installation = self._http.request(Installation, "GET", f"/repos/{quote(self.repository)}/installation")
            permissions = dict(self._permissions)
            if self._with_teams and "members" in installation.permissions:
                permissions |= TEAM_PERMISSIONS
            token_request: dict[str, Any] = {"repositories": [name], "permissions": permissions}
            path = f"/app/installations/{installation.id}/access_tokens"
            token = self._http.request(InstallationToken, "POST", path, body=token_request)
            self._created_at = time.monotonic()
            return token
        except ForgeRefused as refusal:
            if refusal.status == 401 and any(mark in str(refusal) for mark in CLOCK_ERROR_MARKS):
                message = f"The clock of this machine differs from GitHub's. Set the right time. {refusal}"
                raise ForgeRefused(message, Reason.REPOSITORY_ERROR, status=401) from None
            message = {
                401: f"GitHub rejected the key of App {self.app_id}. Check that the App ID and the private key match.",
                404: f"The GitHub App {self.app_id} is not installed on {self.repository}.",
                422: f"The GitHub App {self.app_id} lacks permissions on {self.repository}. It needs "
                f"{_describe_permissions(self._permissions)}. {refusal}",
            }.get(refusal.status or 0, str(refusal))
            raise ForgeRefused(message, Reason.REPOSITORY_ERROR, status=refusal.status) from None

    def _wait_until_valid(self, token: str) -> None:
        """Waits some seconds until GitHub accepts a new token. Its servers do not all know it at once."""
        http = self._build_client(lambda: f"Bearer {token}", headers=GITHUB_HEADERS)
        try:
            for delay in (*NEW_TOKEN_DELAYS_SECONDS, None):
                try:
                    http.request(object, "GET", f"/repos/{quote(self.repository)}")
                    return
                except ForgeUnavailable:
                    return
                except ForgeRefused as refusal:
                    # GitHub hides a private repository from a token that it does not know.
                    if refusal.status not in (401, 404) or delay is None or time.monotonic() + delay > http.deadline:
                        return  # the request that needs the token gets GitHub's reason
                time.sleep(delay)
        finally:
            http.close()

    def _sign_authorization(self) -> str:
        """Returns a signed JSON Web Token for the App, issued slightly in the past to tolerate clock skew."""
        import jwt  # imported only if an App is used, because the import is slow

        now = int(time.time())
        claims = {"iat": now - CLOCK_SKEW_SECONDS, "exp": now + JWT_LIFETIME_SECONDS, "iss": self.app_id}
        return f"Bearer {jwt.encode(claims, self._key, algorithm='RS256')}"


def _describe_permissions(permissions: Mapping[str, str]) -> str:
    if permissions == READ_PERMISSIONS:
        return "read access to contents"
    return "read and write access to contents and pull requests"


def _parse_rsa_key(pem: str) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise ForgeRefused("The GitHub App's key is not an RSA private key in PEM format.", Reason.REPOSITORY_ERROR)
    return key
