"""The embedded store for several processes: the first to open it owns the file and serves the others over a socket."""

from copydesk.analytics.stores.shared.store import SharedStore

__all__ = ["SharedStore"]
