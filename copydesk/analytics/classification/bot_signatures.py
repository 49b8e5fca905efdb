"""Web Bot Auth: an agent signs its requests (RFC 9421), and its host publishes the keys. Keys are given as data."""

import base64
import binascii
import json
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

TAG = "web-bot-auth"
LONGEST_HEADER = 4096
OLDEST = timedelta(days=1)
HEADERS = ("signature-agent", "signature-input", "signature")
DIRECTORY = "/.well-known/http-message-signatures-directory"


class NotADirectory(ValueError):
    message = "This is not a directory of signing keys."

    def __init__(self) -> None:
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class Request:
    """What is verified, in the form the library reads."""

    method: str
    url: str
    headers: Mapping[str, str]


class Directory(HTTPSignatureKeyResolver):
    """The keys we know, each by its thumbprint. Whose a key is counts, not what a request says of itself."""

    def __init__(self, signers: Iterable[Signer]) -> None:
        self._owners: dict[str, str] = {}
        self._keys: dict[str, Ed25519PublicKey] = {}
        for signer in signers:
            for key in signer.keys:
                name = thumbprint(key)
                self._owners[name] = signer.host
                self._keys[name] = Ed25519PublicKey.from_public_bytes(_bytes(key))
        self._verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=self)

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey | None:
        return self._keys.get(key_id)

    def signer(self, method: str, url: str, headers: Mapping[str, str]) -> str | None:
        """The host that signed this request, or None: unsigned, unknown, expired, tampered with, or nonsense.

        `headers` has lower-case names. The signature must cover the host asked, else one request could be replayed
        anywhere, and an end of its validity.
        """
        if not is_signed(headers):
            return None
        try:
            results = self._verifier.verify(Request(method.upper(), url, headers), expect_tag=TAG, max_age=OLDEST)
        except (HTTPMessageSignaturesException, ValueError, TypeError, KeyError, RecursionError):
            return None
        for result in results:
            covered = {component.split(";")[0].strip('"') for component in result.covered_components}
            if "expires" in result.parameters and covered & {"@authority", "@target-uri"}:
                return self._owners.get(str(result.parameters["keyid"]))
        return None


def is_signed(headers: Mapping[str, str]) -> bool:
    """Worth half a millisecond of verifying: there is a signature of this kind, of a sane size."""
    return (
        TAG in headers.get("signature-input", "")
        and "signature" in headers
        and all(len(headers.get(name, "")) <= LONGEST_HEADER for name in HEADERS)
    )


def keys_of(published: bytes) -> tuple[str, ...]:
    """The Ed25519 keys of a published directory (a JWKS). NotADirectory where there are none."""
    try:
        keys = tuple(_ed25519(json.loads(published)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise NotADirectory from fault
    if not keys:
        raise NotADirectory
    return keys


def thumbprint(key: str) -> str:
    """RFC 7638: what a signature calls the key."""
    canonical = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": key}, separators=(",", ":"))
    return base64.urlsafe_b64encode(sha256(canonical.encode()).digest()).rstrip(b"=").decode()


def _ed25519(published: Mapping[str, Any]) -> Iterator[str]:
    for key in published["keys"]:
        if key.get("crv") == "Ed25519":
            Ed25519PublicKey.from_public_bytes(_bytes(key["x"]))
            yield key["x"]


def _bytes(key: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(key + "=" * (-len(key) % 4))
    except (binascii.Error, UnsupportedAlgorithm) as fault:
        raise ValueError("not a key") from fault
