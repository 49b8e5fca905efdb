"""A limit of the names that a project counts by themselves, because anyone can make up any number of them."""

import time
from collections.abc import Callable, Iterable

MAX_CACHED_PROJECTS, MAX_TRACKED_DAYS = 20, 1_000
"""The caches are cleared when they exceed these sizes."""


class NameLimit:
    """Decides which names of a project are counted by themselves.

    Knows stored names by their hashes, which take less memory. A store with several writers exceeds the limits by what
    they log within `max_age_seconds`; None means that there is one writer, which needs no fresh look.
    """

    def __init__(self, max_age_seconds: float | None = None) -> None:
        self._max_age_seconds = max_age_seconds
        self._stored: dict[str, tuple[float, set[int]]] = {}
        self._new_by_day: dict[tuple[str, int], set[int]] = {}

    def admit(
        self,
        project: str,
        day: int,
        name: str,
        load_names: Callable[[str], Iterable[str]],
        max_names: int,
        max_new_per_day: int,
    ) -> bool:
        """Returns whether the name is counted by itself: it is stored, or there is room for it.

        The limit per day keeps one scan from using up all. `load_names` returns the stored names of a project; "" is
        not counted as a name.
        """
        name_hash = hash(name)
        stored = self._find_stored(project, load_names, name_hash)
        if name_hash in stored:
            return True
        if len(self._new_by_day) > MAX_TRACKED_DAYS:
            self._new_by_day.clear()
        new_names = self._new_by_day.setdefault((project, day), set())
        is_full = len(stored) >= max_names or len(new_names) >= max_new_per_day
        if is_full and name_hash not in new_names:
            return False
        new_names.add(name_hash)
        stored.add(name_hash)
        return True

    def _find_stored(self, project: str, load_names: Callable[[str], Iterable[str]], name_hash: int) -> set[int]:
        """Returns the hashes of the stored names; loads them again if they are old and this one is not among them."""
        now = time.monotonic()
        loaded_at, stored = self._stored.get(project, (None, set()))
        is_fresh = loaded_at is not None and (self._max_age_seconds is None or now < loaded_at + self._max_age_seconds)
        if is_fresh or name_hash in stored:
            return stored
        if len(self._stored) >= MAX_CACHED_PROJECTS:
            self._stored.clear()
        # Names that this process has logged may not be folded yet, so they are kept.
        stored = stored | {hash(name) for name in load_names(project) if name}
        self._stored[project] = (now, stored)
        return stored
