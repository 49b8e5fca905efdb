"""Ids that sort by time, and API keys that a secret scanner can recognize by their prefix and checksum."""

import hashlib
import random
import re
import secrets
import string
import threading
import zlib
from collections.abc import Sequence

from copydesk.core import clock

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
CROCKFORD_PAIRS = [first + second for first in CROCKFORD for second in CROCKFORD]
PAIR_SHIFTS = range(120, -1, -10)
DERIVED_CHARS = 16
"""The characters at the end of an id that encode only random bits."""
KEY_PREFIX = "desk_"
KEY_RANDOM_CHARS, KEY_CHECKSUM_CHARS = 32, 6
IMPORTED_KEY_BODY = re.compile(r"[A-Za-z0-9_-]{20,200}")
"""What follows the prefix of a key that another service created. It has no checksum of ours."""

_lock = threading.Lock()
_last_value = 0


def new_id(prefix: str) -> str:
    """Returns `prefix_` and 26 characters, which encode 48 bits of milliseconds and 80 random bits.

    The ids of one process always increase.
    """
    global _last_value
    with _lock:
        value = (clock.now() << 80) | secrets.randbits(80)
        _last_value = value = max(value, _last_value + 1)
    value <<= 2  # pads the 128 bits to 26 digits of 5 bits
    return f"{prefix}_{''.join([CROCKFORD_PAIRS[value >> shift & 1023] for shift in PAIR_SHIFTS])}"


def derive_id(prefix: str, *parts: str) -> str:
    """Returns an id that is always the same for the same parts, and differs for others. It does not sort by time."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    value = int.from_bytes(digest, "big") >> 126
    return f"{prefix}_{''.join([CROCKFORD_PAIRS[value >> shift & 1023] for shift in PAIR_SHIFTS])}"


def derive_from_id(base_id: str, content: str) -> str:
    """Returns an id with the time of another one, and a hash of it and the content in place of the random part.

    The same content always gives the same id, so that a form which is sent twice creates one thing.
    """
    digest = int.from_bytes(hashlib.sha256(f"{base_id} {content}".encode()).digest())
    return base_id[:-DERIVED_CHARS] + _encode_number(digest % 32**DERIVED_CHARS, CROCKFORD, DERIVED_CHARS)


def id_pattern(prefix: str) -> str:
    """Returns a regular expression for ids with this prefix, for the OpenAPI description."""
    return f"^{prefix}_[{CROCKFORD}]{{26}}$"


def is_id(text: str, prefix: str) -> bool:
    body = text.removeprefix(f"{prefix}_")
    return len(body) == 26 and len(text) == len(prefix) + 27 and all(c in CROCKFORD for c in body)


def random_text(length: int) -> str:
    return _encode_number(secrets.randbelow(62**length), BASE62, length)


def new_key(prefix: str = KEY_PREFIX) -> str:
    body = random_text(KEY_RANDOM_CHARS)
    return prefix + body + _checksum(body)


def is_wellformed_key(key: str) -> bool:
    """Returns whether the format and the checksum are right, which detects typos without a database query."""
    body = key[len(KEY_PREFIX) : -KEY_CHECKSUM_CHARS]
    checksum = key[-KEY_CHECKSUM_CHARS:]
    return (
        key.startswith(KEY_PREFIX)
        and len(body) == KEY_RANDOM_CHARS
        and all(c in BASE62 for c in body)
        and checksum == _checksum(body)
    )


def is_importable_key(key: str, prefixes: Sequence[str]) -> bool:
    """Returns whether the key has one of these extra prefixes and is long enough to be a secret."""
    return any(key.startswith(prefix) and IMPORTED_KEY_BODY.fullmatch(key, len(prefix)) for prefix in prefixes)


def sha256_hex(secret: str) -> str:
    """Returns the digest that is stored instead of a secret.

    Only for long random secrets; passwords need a slow hash.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def _checksum(body: str) -> str:
    return _encode_number(zlib.crc32(body.encode()), BASE62, KEY_CHECKSUM_CHARS)


def _encode_number(value: int, alphabet: str, length: int) -> str:
    digits = []
    for _ in range(length):
        value, digit = divmod(value, len(alphabet))
        digits.append(alphabet[digit])
    return "".join(reversed(digits))


def new_request_id() -> str:
    """Returns a random id for a request. It is not a secret, so it needs no random bytes from the system."""
    return f"req_{''.join(random.choices(BASE62, k=20))}"  # noqa: S311
