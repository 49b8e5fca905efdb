"""Verifies that a webhook was signed with the project's secret. No input or output."""

import base64
import binascii
import hmac
from collections.abc import Mapping

SIGNING_TOKEN_PREFIX = "whsec_"  # noqa: S105 - the prefix of GitLab's signing tokens
MAX_AGE_SECONDS = 5 * 60
SIGNATURE_HEADERS = {
    "github": ("x-hub-signature-256",),
    "gitea": ("x-gitea-signature", "x-hub-signature-256"),
    "forgejo": ("x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256"),
}
GITLAB_HEADERS = ("x-gitlab-token", "webhook-signature")


def has_signature(forge: str, headers: Mapping[str, str]) -> bool:
    """Returns whether a delivery has a header that may contain this forge's signature."""
    return any(name in headers for name in SIGNATURE_HEADERS.get(forge, GITLAB_HEADERS))


def is_signature_valid(forge: str, headers: Mapping[str, str], body: bytes, secret: str, now: float) -> bool:
    """Returns whether the signature is valid by the forge's scheme. Compares in constant time.

    If several headers are present, only the first of the forge's list is used.
    """
    if not secret:
        return False
    if forge == "gitlab":
        if secret.startswith(SIGNING_TOKEN_PREFIX):
            return _is_gitlab_signature_valid(headers, body, secret, now)
        return _equal_in_constant_time(headers.get("x-gitlab-token", ""), secret)
    signature = next((headers[name] for name in SIGNATURE_HEADERS.get(forge, ()) if name in headers), "")
    return _equal_in_constant_time(
        signature.removeprefix("sha256="), hmac.digest(secret.encode(), body, "sha256").hex()
    )


def _is_gitlab_signature_valid(headers: Mapping[str, str], body: bytes, secret: str, now: float) -> bool:
    """Verifies a Standard Webhooks signature of id, timestamp and body. Rejects old deliveries to prevent replays."""
    sent_at = headers.get("webhook-timestamp", "")
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING_TOKEN_PREFIX), validate=True)
        is_fresh = abs(now - int(sent_at)) <= MAX_AGE_SECONDS
    except (binascii.Error, ValueError):
        return False
    signed_content = f"{headers.get('webhook-id', '')}.{sent_at}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed_content, "sha256")).decode()
    return is_fresh and any(
        _equal_in_constant_time(signature, expected) for signature in headers.get("webhook-signature", "").split()[:10]
    )


def _equal_in_constant_time(signature: str, expected: str) -> bool:
    return hmac.compare_digest(signature.encode("utf-8", "surrogateescape"), expected.encode())
