"""Whether a webhook was sent by somebody who knows the project's secret. No input or output."""

import base64
import binascii
import hmac
from collections.abc import Mapping

SIGNING_TOKEN = "whsec_"  # noqa: S105 - what GitLab's signing tokens begin with
FRESH_SECONDS = 5 * 60
SIGNATURE_HEADERS = {
    "github": ("x-hub-signature-256",),
    "gitea": ("x-gitea-signature", "x-hub-signature-256"),
    "forgejo": ("x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256"),
}
GITLAB_HEADERS = ("x-gitlab-token", "webhook-signature")


def has_signature(forge: str, headers: Mapping[str, str]) -> bool:
    """Returns whether a delivery brings anything that could be this forge's signature."""
    return any(name in headers for name in SIGNATURE_HEADERS.get(forge, GITLAB_HEADERS))


def is_genuine(forge: str, headers: Mapping[str, str], body: bytes, secret: str, now: float) -> bool:
    """By the forge's own scheme, compared in constant time. The first signature there is decides."""
    if not secret:
        return False
    if forge == "gitlab":
        if secret.startswith(SIGNING_TOKEN):
            return _is_signed_by_gitlab(headers, body, secret, now)
        return _same(headers.get("x-gitlab-token", ""), secret)
    sent = next((headers[name] for name in SIGNATURE_HEADERS.get(forge, ()) if name in headers), "")
    return _same(sent.removeprefix("sha256="), hmac.digest(secret.encode(), body, "sha256").hex())


def _is_signed_by_gitlab(headers: Mapping[str, str], body: bytes, secret: str, now: float) -> bool:
    """Standard Webhooks: identifier, time and body are signed together, so that an old delivery is no good."""
    sent_at = headers.get("webhook-timestamp", "")
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING_TOKEN), validate=True)
        is_fresh = abs(now - int(sent_at)) <= FRESH_SECONDS
    except (binascii.Error, ValueError):
        return False
    signed = f"{headers.get('webhook-id', '')}.{sent_at}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return is_fresh and any(_same(sent, wanted) for sent in headers.get("webhook-signature", "").split()[:10])


def _same(sent: str, wanted: str) -> bool:
    return hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), wanted.encode())
