"""The projects with so many views that all their sections are indexed before a report asks for them."""

import threading


class LargeProjects:
    """The names of large projects, and when their sections that are not indexed are searched. Thread-safe: the section
    indexer searches, and the log asks for a search."""

    def __init__(self, min_views: int = 0) -> None:
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._next_number = min_views
        """The number of the view with which a search is due in any case. A project has at most as many views."""
        self._requested: list[int] = []
        """The first and the last of the numbers of views with which a search was requested."""

    def __contains__(self, name: str) -> bool:
        with self._lock:
            return name in self._names

    def update(self, names: set[str]) -> None:
        """Replaces the names."""
        with self._lock:
            self._names = set(names)

    def discard(self, name: str) -> None:
        with self._lock:
            self._names.discard(name)

    def is_search_due(self, last_number: int) -> bool:
        """Returns whether sections should be searched when this is the number of the last logged view."""
        with self._lock:
            return last_number >= min([self._next_number, *self._requested])

    def request_search(self, number: int) -> None:
        """Requests a search once the view with this number is logged."""
        with self._lock:
            self._requested = [*self._requested[:1], number]

    def finish_search(self, last_number: int, next_number: int) -> None:
        """Removes the requests that a search of views up to the last number has fulfilled; requests of views that were
        logged during the search stay. Also sets when the next search is due in any case."""
        with self._lock:
            self._requested = [number for number in self._requested if number > last_number]
            self._next_number = next_number
