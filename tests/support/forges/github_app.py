"""GitHub Apps: a key signs a short-lived JWT, which is exchanged for a narrowed installation token for one hour."""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.forges.state import User

UNDECODABLE_MESSAGE = "A JSON web token could not be decoded"
INVALID_ISSUER_MESSAGE = "'Issuer' claim ('iss') must be an Integer"
INVALID_ISSUED_AT_MESSAGE = (
    "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
)
INVALID_EXPIRY_MESSAGE = (
    "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion "
    "expires"
)
EXPIRY_TOO_FAR_MESSAGE = "'Expiration time' claim ('exp') is too far in the future"
MAX_JWT_SECONDS = 600


@dataclass
class App:
    """An app with one installation; tests may change `suspended` and `lasts` (the lifetime of a token in seconds)."""

    id: int
    slug: str
    installation: int
    key: rsa.RSAPublicKey
    permissions: dict[str, str]
    repositories: frozenset[str]
    user: User
    lasts: float = 3600
    suspended: bool = False
    now: Callable[[], float] = time.time
    unknown_calls: int = 0
    """The number of calls that a new token is refused for."""

    @staticmethod
    def read_key(public_key: bytes) -> rsa.RSAPublicKey:
        key = serialization.load_pem_public_key(public_key)
        assert isinstance(key, rsa.RSAPublicKey)
        return key

    def find_jwt_problem(self, token: str) -> str | None:
        """Returns GitHub's message for an invalid JWT; None for a JWT that this app signed recently."""
        try:
            head, claims, signature = token.split(".")
            self.key.verify(
                _decode_base64url(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256()
            )
            algorithm, payload = json.loads(_decode_base64url(head)).get("alg"), json.loads(_decode_base64url(claims))
        except (ValueError, InvalidSignature):
            return UNDECODABLE_MESSAGE
        if algorithm != "RS256":
            return UNDECODABLE_MESSAGE
        if str(payload.get("iss")) != str(self.id):
            return INVALID_ISSUER_MESSAGE
        now, issued, expires = self.now(), payload.get("iat"), payload.get("exp")
        if not isinstance(issued, int) or issued > now + 5:
            return INVALID_ISSUED_AT_MESSAGE
        if not isinstance(expires, int | float) or expires <= now:
            return INVALID_EXPIRY_MESSAGE
        return EXPIRY_TOO_FAR_MESSAGE if expires > now + MAX_JWT_SECONDS + 5 else None

    def grants(self, permissions: dict[str, str]) -> bool:
        return all(
            level == self.permissions.get(name) or self.permissions.get(name) == "write"
            for name, level in permissions.items()
        )

    def shape(self, api: str, web: str, account: dict[str, Any], created: str) -> dict[str, Any]:
        return {
            "id": self.installation,
            "account": account,
            "repository_selection": "selected",
            "access_tokens_url": f"{api}/app/installations/{self.installation}/access_tokens",
            "repositories_url": f"{api}/installation/repositories",
            "html_url": f"{web}/organizations/{account['login']}/settings/installations/{self.installation}",
            "app_id": self.id,
            "app_slug": self.slug,
            "target_id": account["id"],
            "target_type": "Organization",
            "permissions": self.permissions,
            "events": ["pull_request", "issue_comment"],
            "created_at": created,
            "updated_at": created,
            "single_file_name": None,
            "suspended_by": None,
            "suspended_at": created if self.suspended else None,
        }


def expand_permissions(permissions: dict[str, str]) -> frozenset[str]:
    """Expands permissions to scopes such as `pull_requests=write`; write access includes read access."""
    writes = {f"{name}=read" for name, level in permissions.items() if level == "write"}
    return frozenset({f"{name}={level}" for name, level in permissions.items()} | writes | {"metadata=read"})


def _decode_base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
