"""Visitor ids: keyed hashes of the site's visitor id, or of IP address and user agent. Hashes cannot be reversed."""

from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from time import gmtime

from copydesk.analytics.ip_addresses import to_client_network
from copydesk.core.clock import DAY


class Rotation(StrEnum):
    """How often visitor hashes change, and so how long a visitor is recognized. LASTING means forever."""

    LASTING = "lasting"
    DAILY = "daily"
    MONTHLY = "monthly"


def rotation_period(rotation: Rotation, day: int) -> str:
    """Returns the period of a day.

    The day is the view's, not today, so that a late view gets the hash of its period.
    """
    if rotation is Rotation.LASTING:
        return ""
    utc_time = gmtime(day * 86_400)
    month = f"{utc_time.tm_year:04}-{utc_time.tm_mon:02}"
    return month if rotation is Rotation.MONTHLY else f"{month}-{utc_time.tm_mday:02}"


class VisitorHasher:
    """Hashes visitors and events with a project's secret and rotation."""

    __slots__ = ("_event", "_hashes", "_secret", "rotation")

    def __init__(self, project_id: str, secret: bytes, rotation: Rotation = Rotation.LASTING) -> None:
        derived = blake2b(project_id.encode(), key=blake2b(secret).digest(), person=b"copydesk project").digest()
        self._initialize(derived, rotation)

    def _initialize(self, derived: bytes, rotation: Rotation) -> None:
        self._secret = derived
        self.rotation = rotation
        self._hashes = lru_cache(maxsize=4096)(self._new_visitor_hash)
        self._event = blake2b(key=derived, digest_size=16, person=b"copydesk event  ")

    def __getstate__(self) -> tuple[bytes, Rotation]:
        """Returns the state for another process of ours. It contains the project's key, so never write it to disk."""
        return self._secret, self.rotation

    def __setstate__(self, state: tuple[bytes, Rotation]) -> None:
        self._initialize(*state)

    def day_to_hash(self, at: int) -> int:
        """Returns the UTC day of a view, or 0 if the hash does not rotate."""
        return 0 if self.rotation is Rotation.LASTING else at // DAY

    def hash_visitor(
        self, at: int, visitor_id: str | None, address: bytes | None, user_agent: str | None
    ) -> int | None:
        """Returns a hash of 63 bits, never 0, or None without id and address."""
        if visitor_id:
            material = b"id\0" + visitor_id.encode("utf-8", "surrogatepass")
        elif address:
            network = to_client_network(address)
            material = b"at" + bytes([len(network)]) + network + (user_agent or "").encode("utf-8", "surrogatepass")
        else:
            return None
        hash_state = self._hashes(self.day_to_hash(at)).copy()
        hash_state.update(material)
        return int.from_bytes(hash_state.digest(), "big") >> 1 or 1

    def hash_event(self, event_id: str) -> int:
        """Returns a hash of 128 bits. It does not rotate, so that duplicates are recognized across periods."""
        hash_state = self._event.copy()
        hash_state.update(event_id.encode("utf-8", "surrogatepass"))
        return int.from_bytes(hash_state.digest(), "big")

    def _new_visitor_hash(self, day: int) -> blake2b:
        label = rotation_period(self.rotation, day).encode()
        key = blake2b(label, key=self._secret, person=b"copydesk period ").digest()
        return blake2b(key=key, digest_size=8, person=b"copydesk visitor")
