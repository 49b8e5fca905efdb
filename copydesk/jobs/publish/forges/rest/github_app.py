"""Tokens of a GitHub App, minted for one job and one repository with only the permissions that publishing needs."""

import base64
import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import BaseModel

from copydesk.core.errors import UserFacingError
from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.rest.api_client import ApiClient
from copydesk.jobs.publish.forges.rest.github import GITHUB_HEADERS

REQUIRED_PERMISSIONS = {"contents": "write", "pull_requests": "write"}
RENEW_BEFORE_SECONDS = 10 * 60.0
JWT_LIFETIME_SECONDS = 9 * 60
CLOCK_SKEW_SECONDS = 60


class Installation(BaseModel):
    id: int


class InstallationToken(BaseModel):
    token: str
    expires_at: datetime


class AppTokens:
    """Mints and revokes tokens of the App's installation on one repository. The private key only signs JWTs."""

    def __init__(self, build_client: Callable[..., ApiClient], repository: str, app_id: str, app_key: str) -> None:
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
            self._installation_token = self._create_token()
        return self._installation_token.token

    def revoke(self, http: ApiClient) -> None:
        """Revokes the token. If that fails, the token expires within an hour."""
        if self._installation_token is not None:
            with suppress(UserFacingError):
                http.request(object, "DELETE", "/installation/token")
            self._installation_token = None
        self._http.close()

    def _create_token(self) -> InstallationToken:
        owner, _, name = self.repository.partition("/")
        try:
            installation = self._http.request(Installation, "GET", f"/repos/{quote(owner)}/{quote(name)}/installation")
            token_request: dict[str, Any] = {"repositories": [name], "permissions": REQUIRED_PERMISSIONS}
            return self._http.request(
                InstallationToken, "POST", f"/app/installations/{installation.id}/access_tokens", body=token_request
            )
        except ForgeRefused as refusal:
            message = {
                401: f"GitHub rejected the key of App {self.app_id}. Check that the App ID and the private key match.",
                404: f"The GitHub App {self.app_id} is not installed on {self.repository}.",
                422: f"The GitHub App {self.app_id} lacks permissions on {self.repository}. It needs read and write "
                f"access to contents and pull requests. {refusal}",
            }.get(refusal.status or 0, str(refusal))
            raise ForgeRefused(message, Reason.REPOSITORY_ERROR, status=refusal.status) from None

    def _sign_authorization(self) -> str:
        """Returns a signed JSON Web Token for the App, issued slightly in the past to tolerate clock skew."""
        now = int(time.time())
        header = {"alg": "RS256", "typ": "JWT"}
        claims = {"iat": now - CLOCK_SKEW_SECONDS, "exp": now + JWT_LIFETIME_SECONDS, "iss": self.app_id}
        unsigned = b".".join(_to_base64url(json.dumps(part).encode()) for part in (header, claims))
        return f"Bearer {(unsigned + b'.' + _to_base64url(self._key.sign(unsigned, PKCS1v15(), SHA256()))).decode()}"


def _parse_rsa_key(pem: str) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise ForgeRefused("The GitHub App's key is not an RSA private key in PEM format.", Reason.REPOSITORY_ERROR)
    return key


def _to_base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
