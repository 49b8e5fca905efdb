"""The umask of commands: their files are private to their user, except files in the user's own folders."""

import os
import stat

NON_OWNER_BITS = stat.S_IRWXG | stat.S_IRWXO
"""The permissions of the group and of all other users."""
UNCHANGED = -1

_user_umask = UNCHANGED


def create_files_privately() -> None:
    """Makes this process and its children create files that only their user can read."""
    global _user_umask
    _user_umask = os.umask(NON_OWNER_BITS)


def user_umask() -> int:
    """Returns the umask that this process started with, for files in the user's own folders, or UNCHANGED."""
    return _user_umask
