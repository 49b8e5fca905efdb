"""A GitHub App's tokens: minted for one job and one repository, with no more rights than publishing needs."""

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

from copydesk.core.errors import Explained
from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.api_client import Http
from copydesk.jobs.publish.forges.github import HEADERS

RIGHTS = {"contents": "write", "pull_requests": "write"}
RENEWED_BEFORE = 10 * 60.0
LIFE_OF_A_CLAIM = 9 * 60
SKEW = 60


class Installation(BaseModel):
    id: int


class Minted(BaseModel):
    token: str
    expires_at: datetime


class AppTokens:
    """Calls itself an installation of the App on one repository; the key signs claims and goes nowhere."""

    def __init__(self, reach: Callable[..., Http], repository: str, app_id: str, app_key: str) -> None:
        self.repository, self.app_id = repository, app_id
        self._key = _rsa(app_key)
        self._http = reach(self._claim, headers=HEADERS)
        self._minted: Minted | None = None

    def token(self) -> str:
        if self._minted is None or self._minted.expires_at.timestamp() < time.time() + RENEWED_BEFORE:
            self._minted = self._mint()
        return self._minted.token

    def give_back(self, http: Http) -> None:
        """Revokes the token; one that cannot be revoked expires within the hour."""
        if self._minted is not None:
            with suppress(Explained):
                http.ask(object, "DELETE", "/installation/token")
            self._minted = None
        self._http.close()

    def _mint(self) -> Minted:
        owner, _, name = self.repository.partition("/")
        try:
            found = self._http.ask(Installation, "GET", f"/repos/{quote(owner)}/{quote(name)}/installation")
            wanted: dict[str, Any] = {"repositories": [name], "permissions": RIGHTS}
            return self._http.ask(Minted, "POST", f"/app/installations/{found.id}/access_tokens", body=wanted)
        except ForgeRefused as refusal:
            explained = {
                401: f"GitHub does not take the key of App {self.app_id}: are the App's id and its private key a pair?",
                404: f"The GitHub App {self.app_id} is not installed on {self.repository}.",
                422: f"The GitHub App {self.app_id} lacks rights on {self.repository}: it needs contents and pull "
                f"requests, read and write. {refusal}",
            }.get(refusal.status or 0, str(refusal))
            raise ForgeRefused(explained, Reason.REPOSITORY_ERROR, status=refusal.status) from None

    def _claim(self) -> str:
        """A JSON Web Token that says who we are; issued a little in the past, for clocks that differ."""
        now = int(time.time())
        head, claims = (
            {"alg": "RS256", "typ": "JWT"},
            {"iat": now - SKEW, "exp": now + LIFE_OF_A_CLAIM, "iss": self.app_id},
        )
        signed = b".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        return f"Bearer {(signed + b'.' + _encoded(self._key.sign(signed, PKCS1v15(), SHA256()))).decode()}"


def _rsa(pem: str) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise ForgeRefused("The GitHub App's key is not an RSA private key in PEM form.", Reason.REPOSITORY_ERROR)
    return key


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
