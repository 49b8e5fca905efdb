"""Errors of moving data."""

from copydesk.core.errors import UserFacingError


class MigrationFailed(UserFacingError):
    """The data cannot be moved; the message says why."""
