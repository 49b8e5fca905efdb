"""Signs deliveries as the Standard Webhooks specification describes, with HMAC-SHA256."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"  # noqa: S105 - the public prefix of all such secrets
SECRET_BYTES = 32


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def build_headers(message_id: str, at_seconds: int, body: bytes, signing_secrets: Sequence[str]) -> dict[str, str]:
    """Returns the headers of a delivery, with one signature for each secret."""
    content = f"{message_id}.{at_seconds}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at_seconds),
        "webhook-signature": " ".join(_sign(content, secret) for secret in signing_secrets),
    }


def _sign(content: bytes, secret: str) -> str:
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
