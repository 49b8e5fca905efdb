"""Signs commits with an SSH key, as git does with `gpg.format=ssh`. The key stays in memory.

Forges show such commits as verified when the key is a signing key of the account with the committer's address.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from copydesk.core.errors import InvalidRequest
from copydesk.jobs.job import RepositoryFailed

SIGNATURE_MAGIC = b"SSHSIG"
SIGNATURE_VERSION = (1).to_bytes(4, "big")
NAMESPACE = b"git"
HASH_NAME = b"sha512"
ARMOR_LINE_CHARS = 70
INVALID_KEY_MESSAGE = (
    "The secret signing_key must be an Ed25519 or RSA private key without a passphrase. "
    "Create one with `ssh-keygen -t ed25519 -N ''`."
)

SignCommit = Callable[[bytes], str]
"""Returns the armored signature of a commit's content."""


def load_commit_signer(secrets: Mapping[str, str]) -> SignCommit | None:
    """Returns the function that signs a project's commits; None if the project has no signing key."""
    key_text = secrets.get("signing_key")
    if not key_text:
        return None
    try:
        key = parse_signing_key(key_text)
    except InvalidRequest as fault:
        raise RepositoryFailed(fault.message) from None
    return lambda content: sign_ssh(key, content)


def parse_signing_key(text: str) -> Ed25519PrivateKey | RSAPrivateKey:
    """Parses a key. Raises InvalidRequest for other types: signatures of ECDSA keys differ each time they are made,
    but the same input must always create the same commit.
    """
    data = text.strip().encode() + b"\n"
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
    try:
        key = load(data, password=None)
    except Exception:  # the library's errors for unusual keys are of many types, and may quote the key
        raise InvalidRequest(INVALID_KEY_MESSAGE) from None
    if not isinstance(key, Ed25519PrivateKey | RSAPrivateKey):
        raise InvalidRequest(INVALID_KEY_MESSAGE)
    return key


def sign_ssh(key: Ed25519PrivateKey | RSAPrivateKey, content: bytes) -> str:
    """Returns an armored SSH signature, in the format that OpenSSH's PROTOCOL.sshsig describes."""
    fields = [NAMESPACE, b"", HASH_NAME]
    signed = SIGNATURE_MAGIC + b"".join(map(_encode_string, [*fields, hashlib.sha512(content).digest()]))
    if isinstance(key, Ed25519PrivateKey):
        algorithm, signature = b"ssh-ed25519", key.sign(signed)
    else:
        algorithm, signature = b"rsa-sha2-512", key.sign(signed, PKCS1v15(), SHA512())
    public_line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    public_key = base64.b64decode(public_line.split()[1])
    parts = [public_key, *fields, _encode_string(algorithm) + _encode_string(signature)]
    blob = SIGNATURE_MAGIC + SIGNATURE_VERSION + b"".join(map(_encode_string, parts))
    encoded = base64.b64encode(blob).decode()
    lines = [encoded[start : start + ARMOR_LINE_CHARS] for start in range(0, len(encoded), ARMOR_LINE_CHARS)]
    return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----"])


def _encode_string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
