"""A delivery counts only with the project's secret, by each forge's own scheme."""

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


def standard(at: float = NOW, body: bytes = BODY, key: bytes = KEY) -> dict[str, str]:
    signed = f"msg_1.{int(at)}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": str(int(at)), "webhook-signature": f"v1a,x v1,{signature}"}


@pytest.mark.parametrize(("forge", "headers"), GOOD)
def test_a_signed_delivery_is_genuine(forge: str, headers: dict[str, str]) -> None:
    assert is_signature_valid(forge, headers, BODY, SECRET, NOW)


@pytest.mark.parametrize(("forge", "headers"), GOOD)
def test_another_secret_or_none_is_not(forge: str, headers: dict[str, str]) -> None:
    assert not is_signature_valid(forge, headers, BODY, "other", NOW)
    assert not is_signature_valid(forge, headers, BODY, "", NOW)
    assert not is_signature_valid(forge, {}, BODY, SECRET, NOW)
    assert not is_signature_valid(forge, dict.fromkeys(headers, ""), BODY, SECRET, NOW)
    assert not is_signature_valid(forge, dict.fromkeys(headers, "sha256=ünïcode"), BODY, SECRET, NOW)


@pytest.mark.parametrize(("forge", "headers"), [case for case in GOOD if case[0] != "gitlab"])
def test_another_body_is_not(forge: str, headers: dict[str, str]) -> None:
    assert not is_signature_valid(forge, headers, BODY + b" ", SECRET, NOW)


def test_a_bad_signature_is_not_mended_by_a_good_one_of_another_kind() -> None:
    assert not is_signature_valid("forgejo", {"x-forgejo-signature": "00", "x-gitea-signature": HEX}, BODY, SECRET, NOW)


def test_one_forges_scheme_does_not_open_anothers() -> None:
    assert not is_signature_valid("github", {"x-gitlab-token": SECRET, "x-gitea-signature": HEX}, BODY, SECRET, NOW)
    assert not is_signature_valid("gitlab", {"x-hub-signature-256": f"sha256={HEX}"}, BODY, SECRET, NOW)
    assert not is_signature_valid("local", {"x-hub-signature-256": f"sha256={HEX}"}, BODY, SECRET, NOW)


def test_gitlabs_signing_token_covers_body_and_time() -> None:
    assert is_signature_valid("gitlab", standard(), BODY, SIGNING, NOW)
    assert not is_signature_valid("gitlab", standard(), BODY + b" ", SIGNING, NOW)
    assert not is_signature_valid("gitlab", standard(at=NOW - 301), BODY, SIGNING, NOW)
    assert not is_signature_valid("gitlab", standard(at=NOW + 301), BODY, SIGNING, NOW)
    assert not is_signature_valid("gitlab", standard(key=bytes(32)), BODY, SIGNING, NOW)
    assert not is_signature_valid("gitlab", {**standard(), "webhook-timestamp": "soon"}, BODY, SIGNING, NOW)
    assert not is_signature_valid("gitlab", standard(), BODY, "whsec_not base64!", NOW)


def test_a_signing_token_is_never_taken_as_a_plain_one() -> None:
    assert not is_signature_valid("gitlab", {"x-gitlab-token": SIGNING}, BODY, SIGNING, NOW)
