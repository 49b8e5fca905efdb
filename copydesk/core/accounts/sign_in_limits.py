"""Rate limits of sign-in attempts, for each account and for each network."""

from ipaddress import ip_address, ip_network

from sqlalchemy import Connection, delete

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import limits
from copydesk.core.ids import sha256_hex
from copydesk.core.rate_limits.limits import RateLimit, consume

SIGN_IN_LIMIT_PER_PERSON, SIGN_IN_LIMIT_PER_ADDRESS = (
    RateLimit("sign-in", 10, 15 * 60_000),
    RateLimit("sign-in-address", 50, 15 * 60_000),
)
ATTEMPTS_KEPT_MS = clock.DAY
"""Much longer than a window, so that a wrong clock does not end a window early."""


def count_sign_in_attempt(database: Database, tx: Connection, email: str, address: str | None) -> None:
    """Counts an attempt. Raises TooManyRequests above the limit of the account or of the client's network."""
    delete_old_attempts(tx, SIGN_IN_LIMIT_PER_ADDRESS, SIGN_IN_LIMIT_PER_PERSON)
    consume(database, tx, SIGN_IN_LIMIT_PER_ADDRESS, client_network(address))
    count_password_attempt(database, tx, email)


def count_password_attempt(database: Database, tx: Connection, email: str) -> None:
    consume(database, tx, SIGN_IN_LIMIT_PER_PERSON, sha256_hex(email))


def reset_sign_in_attempts(tx: Connection, email: str) -> None:
    """Resets the sign-in rate limit of this email address. Called after a correct password."""
    tx.execute(delete(limits).where(limits.c.bucket == f"{SIGN_IN_LIMIT_PER_PERSON.name}:{sha256_hex(email)}"))


def delete_old_attempts(tx: Connection, *limits_of_attempts: RateLimit) -> None:
    """Deletes the counted attempts of windows that ended long ago: they contain IP addresses."""
    for limit in limits_of_attempts:
        is_old = limits.c.started_at < clock.now() - ATTEMPTS_KEPT_MS
        tx.execute(delete(limits).where(limits.c.bucket.startswith(f"{limit.name}:", autoescape=True), is_old))


def client_network(address: str | None) -> str:
    """Returns the network by which sign-in attempts are counted: an IPv4 address or an IPv6 /64.

    One attacker usually controls a whole IPv6 /64.
    """
    try:
        ip = ip_address(address or "")
        mapped = getattr(ip, "ipv4_mapped", None) or ip
        return str(mapped if mapped.version == 4 else ip_network((int(mapped), 64), strict=False))
    except ValueError:
        return "unknown"
