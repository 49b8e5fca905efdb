"""A delivery is accepted only with the project's secret, by each forge's own scheme."""

import base64
import hashlib
import hmac

import pytest

from copydesk.jobs.publish.forges.webhooks.signatures import is_signature_valid

SECRET, BODY, NOW = "s3cret", b'{"action":"closed"}', 1_800_000_000.0
HEX = hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()
KEY = bytes(range(32))
SIGNING = "whsec_" + base64.b64encode(KEY).decode()

GOOD = [
    ("github", {"x-hub-signature-256": f"sha256={HEX}"}),
    ("gitea", {"x-gitea-signature": HEX}),
    ("gitea", {"x-hub-signature-256": f"sha256={HEX}"}),
    ("forgejo", {"x-forgejo-signature": HEX, "x-gitea-signature": HEX}),
    ("forgejo", {"x-gitea-signature": HEX}),
    ("gitlab", {"x-gitlab-token": SECRET}),
]


def standard_webhook_headers(at: float = NOW, body: bytes = BODY, key: bytes = KEY) -> dict[str, str]:
    signed = f"msg_1.{int(at)}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": str(int(at)), "webhook-signature": f"v1a,x v1,{signature}"}


@pytest.mark.parametrize(("forge", "headers"), GOOD)
def test_correctly_signed_delivery_is_accepted(forge: str, headers: dict[str, str]) -> None:
    assert is_signature_valid(forge, headers, BODY, SECRET, NOW)


@pytest.mark.parametrize(("forge", "headers"), GOOD)
def test_wrong_or_missing_secret_is_rejected(forge: str, headers: dict[str, str]) -> None:
    assert not is_signature_valid(forge, headers, BODY, "other", NOW)
    assert not is_signature_valid(forge, headers, BODY, "", NOW)
    assert not is_signature_valid(forge, {}, BODY, SECRET, NOW)
    assert not is_signature_valid(forge, dict.fromkeys(headers, ""), BODY, SECRET, NOW)
    assert not is_signature_valid(forge, dict.fromkeys(headers, "sha256=ünïcode"), BODY, SECRET, NOW)


@pytest.mark.parametrize(("forge", "headers"), [case for case in GOOD if case[0] != "gitlab"])
def test_changed_body_is_rejected(forge: str, headers: dict[str, str]) -> None:
    assert not is_signature_valid(forge, headers, BODY + b" ", SECRET, NOW)


def test_valid_signature_of_another_scheme_does_not_outweigh_an_invalid_one() -> None:
    assert not is_signature_valid("forgejo", {"x-forgejo-signature": "00", "x-gitea-signature": HEX}, BODY, SECRET, NOW)


def test_signature_scheme_of_another_forge_is_rejected() -> None:
    assert not is_signature_valid("github", {"x-gitlab-token": SECRET, "x-gitea-signature": HEX}, BODY, SECRET, NOW)
    assert not is_signature_valid("gitlab", {"x-hub-signature-256": f"sha256={HEX}"}, BODY, SECRET, NOW)
    assert not is_signature_valid("local", {"x-hub-signature-256": f"sha256={HEX}"}, BODY, SECRET, NOW)


def test_gitlab_signing_token_covers_body_and_time() -> None:
    assert is_signature_valid("gitlab", standard_webhook_headers(), BODY, SIGNING, NOW)
    assert not is_signature_valid("gitlab", standard_webhook_headers(), BODY + b" ", SIGNING, NOW)
    assert not is_signature_valid("gitlab", standard_webhook_headers(at=NOW - 301), BODY, SIGNING, NOW)
    assert not is_signature_valid("gitlab", standard_webhook_headers(at=NOW + 301), BODY, SIGNING, NOW)
    assert not is_signature_valid("gitlab", standard_webhook_headers(key=bytes(32)), BODY, SIGNING, NOW)
    assert not is_signature_valid(
        "gitlab", {**standard_webhook_headers(), "webhook-timestamp": "soon"}, BODY, SIGNING, NOW
    )
    assert not is_signature_valid("gitlab", standard_webhook_headers(), BODY, "whsec_not base64!", NOW)


def test_signing_token_is_never_accepted_as_a_plain_token() -> None:
    assert not is_signature_valid("gitlab", {"x-gitlab-token": SIGNING}, BODY, SIGNING, NOW)
