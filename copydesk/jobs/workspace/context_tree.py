"""The files of a context repository at a pinned commit. The type has no operation that could change them."""

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from copydesk.jobs.workspace.git_tree import Tree

SECRET_FILE_PATTERN = re.compile(
    r"(?:^|/)(?:\.env(?!\.(?:example|sample|template|dist)$)(?:\.[^/]*)?|\.netrc|\.npmrc|\.pypirc|\.htpasswd|\.git-credentials"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)|credentials|secrets?\.(?:ya?ml|json|toml|env|ini|properties)"
    r"|[^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|tfstate|tfvars))$",
    re.IGNORECASE,
)
"""Names of files that usually hold secrets. An agent that writes documentation needs none of them."""


def is_secret_file(path: str) -> bool:
    return SECRET_FILE_PATTERN.search(path) is not None


class ReadableFiles(Protocol):
    """Files that a tool may read: a workspace or a context repository."""

    def paths(self) -> list[str]: ...

    def files(self, is_wanted: Callable[[str], bool] = ..., /) -> Iterator[tuple[str, bytes]]: ...

    def is_readable(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes: ...


class ContextTree:
    """The files of one commit of a context repository, by the name that the project gave the repository.

    Files that usually hold secrets are left out, as if they did not exist.
    """

    def __init__(self, name: str, tree: Tree) -> None:
        self.name = name
        self.tree = tree

    def paths(self) -> list[str]:
        """Returns the paths of all regular files, sorted."""
        return sorted(path for path, _ in self.tree.files() if not is_secret_file(path))

    def files(self, is_wanted: Callable[[str], bool] = lambda path: True) -> Iterator[tuple[str, bytes]]:
        """Yields the wanted regular files with their bytes, sorted by path, without those above the size limit."""
        for path, entry in sorted(self.tree.files()):
            if is_wanted(path) and not is_secret_file(path) and self.tree.is_readable(entry):
                yield path, self.tree.read(entry, path)

    def is_readable(self, path: str) -> bool:
        """Returns False for a file above the size limit."""
        entry = self.tree.find_entry(path)
        return entry is None or not entry.is_file or self.tree.is_readable(entry)

    def read(self, path: str) -> bytes:
        """Returns a file's bytes. Raises KeyError if there is no regular file, FileTooLarge above the size limit."""
        entry = self.tree.find_entry(path)
        if entry is None or not entry.is_file or is_secret_file(path):
            raise KeyError(path)
        return self.tree.read(entry, path)
