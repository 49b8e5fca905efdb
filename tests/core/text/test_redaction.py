"""Redaction of secrets in every form in which a message may repeat them."""

import base64
from urllib.parse import quote

import pytest

from copydesk.core.text.redaction import MASK, redact

SECRET = "s3cret/of+the=desk~4711"


@pytest.mark.parametrize("before", ["", "u", "us", "usr", "user:"])
def test_secret_inside_of_base64_is_redacted_wherever_it_begins(before: str) -> None:
    text = f"{before}{SECRET}:and more".encode()
    for encoded in (base64.b64encode(text).decode(), base64.urlsafe_b64encode(text).decode()):
        redacted = redact(f"Authorization: Basic {encoded}", SECRET)
        assert MASK in redacted
        assert len(redacted) < len(f"Authorization: Basic {encoded}") - len(SECRET)


@pytest.mark.parametrize("form", [SECRET, quote(SECRET, safe=""), SECRET.encode().hex(), SECRET[::-1]])
def test_secret_is_redacted_in_other_forms(form: str) -> None:
    assert redact(f"got '{form}'", SECRET) == f"got '{MASK}'"
