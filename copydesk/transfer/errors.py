"""Why data cannot be moved."""

from copydesk.core.errors import UserFacingError


class MigrationFailed(UserFacingError):
    """The database cannot be moved; the message says why."""
