"""Password hashing with argon2id. Verification takes as long for an unknown account as for a known one."""

import secrets
from functools import cache
from typing import TYPE_CHECKING

from copydesk.core.errors import InvalidRequest

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_PASSWORD_CHARS, MAX_PASSWORD_CHARS = 10, 1000


def hash_password(password: str) -> str:
    """Hashes a password. Raises InvalidRequest if it is too short or too long."""
    if len(password) < MIN_PASSWORD_CHARS:
        raise InvalidRequest(f"A password must have at least {MIN_PASSWORD_CHARS} characters.")
    if len(password) > MAX_PASSWORD_CHARS:
        raise InvalidRequest(f"A password must have at most {MAX_PASSWORD_CHARS:,} characters.")
    return _hasher().hash(password)


def verify_password(hashed: str | None, password: str) -> bool:
    """Returns whether the password matches the hash.

    Without a hash (an unknown account) it verifies a dummy hash, so that the response time does not reveal which
    accounts exist.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        matches = _hasher().verify(hashed or _dummy_hash(), password[: MAX_PASSWORD_CHARS + 1])
    except (VerificationError, InvalidHashError):
        return False
    return matches and bool(hashed)


@cache
def _hasher() -> "PasswordHasher":
    """Returns the hasher, with the library's default cost (64 MB of memory). It is loaded at first use."""
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _dummy_hash() -> str:
    return _hasher().hash(secrets.token_hex(16))
