"""Opens and creates repositories with libgit2. Every use of libgit2 on a repository begins here."""

from functools import cache
from os import PathLike, fspath
from threading import Lock

import pygit2
from pygit2.enums import ConfigLevel

_settings_lock = Lock()


def open_repository(path: str | PathLike[str]) -> pygit2.Repository:
    """Opens a repository. Raises pygit2.GitError if there is none."""
    _ignore_machine_settings()
    return pygit2.Repository(fspath(path))


def create_bare_repository(path: str | PathLike[str], initial_head: str | None = None) -> pygit2.Repository:
    _ignore_machine_settings()
    return pygit2.init_repository(fspath(path), bare=True, initial_head=initial_head)


def _ignore_machine_settings() -> None:
    """Makes libgit2 read only the repository's own configuration, not the machine's and the user's."""
    with _settings_lock:  # another thread must not read the settings while they change
        _set_search_paths()


@cache
def _set_search_paths() -> None:
    for level in (ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL):
        pygit2.settings.search_path[level] = ""
