"""Passwords: hashed with argon2id, and no quicker to refuse where there is none to compare with."""

import secrets
from functools import cache
from typing import TYPE_CHECKING

from copydesk.core.errors import InvalidRequest

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_PASSWORD_CHARS, MAX_PASSWORD_CHARS = 10, 1000


def hash_password(password: str) -> str:
    """Refuses what is no good as a password."""
    if len(password) < MIN_PASSWORD_CHARS:
        raise InvalidRequest(f"A password has at least {MIN_PASSWORD_CHARS} characters.")
    if len(password) > MAX_PASSWORD_CHARS:
        raise InvalidRequest(f"A password has at most {MAX_PASSWORD_CHARS:,} characters.")
    return _hasher().hash(password)


def verify_password(hashed: str | None, password: str) -> bool:
    """Where there is no hash, another is looked at, so that the time does not tell."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        matches = _hasher().verify(hashed or _dummy_hash(), password[: MAX_PASSWORD_CHARS + 1])
    except (VerificationError, InvalidHashError):
        return False
    return matches and bool(hashed)


@cache
def _hasher() -> "PasswordHasher":
    """With the library's own cost, about 200 ms and 64 MB; loaded when first needed."""
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _dummy_hash() -> str:
    return _hasher().hash(secrets.token_hex(16))
