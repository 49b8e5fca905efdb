"""Passwords: hashed with argon2id, and no quicker to refuse where there is none to compare with."""

import secrets
from functools import cache
from typing import TYPE_CHECKING

from copydesk.core.errors import InvalidRequest

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST, LONGEST = 10, 1000


def hash_of(password: str) -> str:
    """Refuses what is no good as a password."""
    if len(password) < SHORTEST:
        raise InvalidRequest(f"A password has at least {SHORTEST} characters.")
    if len(password) > LONGEST:
        raise InvalidRequest(f"A password has at most {LONGEST:,} characters.")
    return _hasher().hash(password)


def is_password(hashed: str | None, password: str) -> bool:
    """Where there is no hash, another is looked at, so that the time does not tell."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        fits = _hasher().verify(hashed or _nobodys(), password[: LONGEST + 1])
    except (VerificationError, InvalidHashError):
        return False
    return fits and bool(hashed)


@cache
def _hasher() -> "PasswordHasher":
    """With the library's own cost, about 200 ms and 64 MB; loaded when first needed."""
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _nobodys() -> str:
    return _hasher().hash(secrets.token_hex(16))
