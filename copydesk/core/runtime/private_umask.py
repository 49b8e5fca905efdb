"""The umask of commands: what they create is for their own user alone, but for files in folders of the user's own."""

import os
import stat

NON_OWNER_BITS = stat.S_IRWXG | stat.S_IRWXO
"""The rights of the group and of all other users."""
UNCHANGED = -1

_user_umask = UNCHANGED


def create_files_privately() -> None:
    """Has this process and its children create files that only their user can read."""
    global _user_umask
    _user_umask = os.umask(NON_OWNER_BITS)


def user_umask() -> int:
    """Returns the umask that this process was started with, for files in folders of the user's own; or UNCHANGED."""
    return _user_umask
