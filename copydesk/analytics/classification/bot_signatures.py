"""Verification of Web Bot Auth: agents sign their requests (RFC 9421), and their hosts publish the keys.

The keys come from the agent table; nothing is fetched here.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageSignaturesException,
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    algorithms,
)

from copydesk.analytics.classification.agent_table import Signer
from copydesk.analytics.classification.classifier import CLAIM_PREFIX

SIGNATURE_TAG = "web-bot-auth"
MAX_SIGNATURE_HEADER_CHARS = 4096
MAX_SIGNATURE_AGE = timedelta(days=1)
SIGNATURE_AGENT_PATTERN = re.compile(r"https://([\w.-]{1,253})", re.ASCII)
SIGNATURE_HEADERS = ("signature-agent", "signature-input", "signature")


class InvalidKeyDirectory(ValueError):
    message = "This is not a directory of signing keys (a JWKS with Ed25519 keys)."

    def __init__(self) -> None:
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request in the form that the signature library reads."""

    method: str
    url: str
    headers: Mapping[str, str]


class KeyDirectory(HTTPSignatureKeyResolver):
    """The known keys by their thumbprints.

    The key identifies the signer; the `Signature-Agent` header of a request is not trusted.
    """

    def __init__(self, signers: Iterable[Signer]) -> None:
        self._host_by_key_id: dict[str, str] = {}
        self._key_by_id: dict[str, Ed25519PublicKey] = {}
        for signer in signers:
            for key in signer.keys:
                key_id = thumbprint(key)
                self._host_by_key_id[key_id] = signer.host
                self._key_by_id[key_id] = Ed25519PublicKey.from_public_bytes(_decode_key(key))
        self._verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=self)

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey | None:
        return self._key_by_id.get(key_id)

    def find_signer(self, method: str, url: str, headers: Mapping[str, str]) -> str | None:
        """Returns the host that signed this request. None if it is unsigned, expired, altered, malformed or by an
        unknown key.

        `headers` has lower-case names. The signature must cover the requested host, so that it cannot be replayed to
        another host, and must have an expiry time.
        """
        if not is_signed(headers):
            return None
        try:
            results = self._verifier.verify(
                SignedRequest(method.upper(), url, headers), expect_tag=SIGNATURE_TAG, max_age=MAX_SIGNATURE_AGE
            )
        except (HTTPMessageSignaturesException, ValueError, TypeError, KeyError, RecursionError):
            return None
        for result in results:
            covered = {component.split(";")[0].strip('"') for component in result.covered_components}
            if "expires" in result.parameters and covered & {"@authority", "@target-uri"}:
                return self._host_by_key_id.get(str(result.parameters["keyid"]))
        return None


def is_signed(headers: Mapping[str, str]) -> bool:
    """Returns whether the headers contain a Web Bot Auth signature of acceptable size. Cheap; verifying is not."""
    return (
        SIGNATURE_TAG in headers.get("signature-input", "")
        and "signature" in headers
        and all(len(headers.get(name, "")) <= MAX_SIGNATURE_HEADER_CHARS for name in SIGNATURE_HEADERS)
    )


def find_claimed_signer(headers: Mapping[str, str]) -> str | None:
    """Returns the host that a signed request names in `Signature-Agent`, with CLAIM_PREFIX; None if it is unsigned.

    The host is a claim, because the signature is not verified. `headers` has lower-case names.
    """
    if not is_signed(headers):
        return None
    match = SIGNATURE_AGENT_PATTERN.search(headers.get("signature-agent", ""))
    return CLAIM_PREFIX + (match[1].lower() if match else "")


def parse_key_directory(published: bytes) -> tuple[str, ...]:
    """Returns the Ed25519 keys of a published directory (a JWKS). Raises InvalidKeyDirectory if it has none."""
    try:
        keys = tuple(_read_ed25519_keys(json.loads(published)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidKeyDirectory from error
    if not keys:
        raise InvalidKeyDirectory
    return keys


def thumbprint(key: str) -> str:
    """Returns the JWK thumbprint (RFC 7638), which is the key id in signatures."""
    canonical = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": key}, separators=(",", ":"))
    return base64.urlsafe_b64encode(sha256(canonical.encode()).digest()).rstrip(b"=").decode()


def _read_ed25519_keys(jwks: Mapping[str, Any]) -> Iterator[str]:
    for key in jwks["keys"]:
        if key.get("crv") == "Ed25519":
            Ed25519PublicKey.from_public_bytes(_decode_key(key["x"]))
            yield key["x"]


def _decode_key(key: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(key + "=" * (-len(key) % 4))
    except (binascii.Error, UnsupportedAlgorithm) as error:
        raise ValueError("not an Ed25519 key in base64url") from error
