"""Why data cannot be moved."""

from copydesk.core.errors import Explained


class CannotMove(Explained):
    """The database cannot be moved; the message says why."""
