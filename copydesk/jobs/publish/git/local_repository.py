"""A repository on this machine, used without its configuration: nothing that its owner wrote is run as the service.

A repository's own configuration and hooks name commands: filters, hooks, a file system monitor, programs for a remote
that lends missing objects. Git runs them as whoever runs git there. So git is given another folder, whose configuration
is written here and whose objects and branches are the repository's own, by symbolic links.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from copydesk.jobs.job import RepositoryFailed

LINKED = ("objects", "refs", "packed-refs", "shallow", "logs", "reftable")
STORED_AS = ("objectformat", "refstorage")
"""Of the configuration only these extensions are taken over, and `core.sharedRepository`; none can name a command."""
MAX_HEAD_BYTES = 4096
MAX_CONFIG_BYTES = 1024 * 1024
SECTION = re.compile(r"\[([A-Za-z0-9.-]+)\]")


@dataclass(frozen=True)
class LocalRepository:
    """`own` holds HEAD; `common` holds objects and branches, and is another folder for a linked work tree."""

    path: str
    own: Path
    common: Path

    @classmethod
    def find(cls, address: str) -> "LocalRepository":
        """Finds the repository as git would, by a path or a file:// address; RepositoryFailed where there is none."""
        path = unquote(urlsplit(address).path) if address.startswith("file://") else address
        for place in (f"{path}/.git", path, f"{path}.git/.git", f"{path}.git"):
            own = _git_folder(Path(place))
            if own is not None:
                repository = cls(path, own, _common_folder(own))
                repository._refuse_other_owners()
                return repository
        raise RepositoryFailed(f"'{path}' does not appear to be a git repository on this machine.")

    @contextmanager
    def view(self) -> Iterator[Path]:
        """A bare repository to run git in, with the branches and objects of this one and a configuration of ours."""
        with TemporaryDirectory(prefix="copydesk-view-") as name:
            folder = Path(name, "view.git")
            folder.mkdir()
            for part in LINKED:
                if part == "packed-refs" or (self.common / part).exists():
                    (folder / part).symlink_to(self.common / part)
            (folder / "HEAD").write_text(_read_head(self.own), errors="surrogateescape")
            (folder / "config").write_text(self._config())
            yield folder

    def refuse_checked_out(self, branch: str) -> None:
        """Raises RepositoryFailed where a work tree has the branch checked out: its files would not be the branch's."""
        heads = [self.common / "HEAD"] if not self._is_bare() else []
        heads += (self.common / "worktrees").glob("*/HEAD")
        if f"ref: refs/heads/{branch}" in [_read_head(head.parent).strip() for head in heads]:
            raise RepositoryFailed(
                f"The branch {branch} is checked out in {self.path}, so Copydesk does not move it. Merge it there with "
                "git, or check out another branch there and try again."
            )

    def _config(self) -> str:
        known = self._settings("extensions", STORED_AS)
        shared = self._settings("core", ("sharedrepository",))
        lines = [f"\trepositoryFormatVersion = {1 if known else 0}", "\tbare = true"]
        lines += [f"\t{name} = {value}" for name, value in shared.items()]
        lines += ["\tlogAllRefUpdates = true"] if (self.common / "logs").is_dir() else []
        lines += ["[extensions]", *(f"\t{name} = {value}" for name, value in known.items())] if known else []
        return "\n".join(["[core]", *lines, ""])

    def _settings(self, wanted: str, names: tuple[str, ...]) -> dict[str, str]:
        """Returns what a section of its configuration says, without what it includes; one plain word for each name."""
        found, section = dict[str, str](), ""
        for line in _read_small(self.common / "config", MAX_CONFIG_BYTES).splitlines():
            if heading := SECTION.match(line.strip()):
                section = heading[1].lower()
            name, _, value = (part.strip() for part in line.partition("="))
            if section == wanted and name.lower() in names and value.isalnum():
                found[name.lower()] = value
        return found

    def _is_bare(self) -> bool:
        said = self._settings("core", ("bare",)).get("bare", "")
        return said.lower() in ("true", "yes", "on", "1") if said else self.common.name != ".git"

    def _refuse_other_owners(self) -> None:
        """What the service writes there would be the service's own, and in the owner's way."""
        for folder in (self.own, self.common):
            if folder.stat().st_uid != os.geteuid():
                raise RepositoryFailed(
                    f"{self.path} belongs to another user than the one that Copydesk runs as. Run Copydesk as its "
                    "owner, or change its owner."
                )


def _git_folder(place: Path) -> Path | None:
    try:
        if place.is_file():  # of a linked work tree or a submodule: it names the folder
            place = place.parent / _read_small(place).strip().removeprefix("gitdir: ")
        common = _common_folder(place)
        is_one = os.path.lexists(place / "HEAD") and (common / "objects").is_dir() and (common / "refs").is_dir()
    except (OSError, ValueError):
        return None
    return place.absolute() if is_one else None


def _common_folder(own: Path) -> Path:
    named = _read_small(own / "commondir").strip()
    return Path(os.path.normpath(own.absolute() / named)) if named else own.absolute()


def _read_head(folder: Path) -> str:
    head = folder / "HEAD"
    if head.is_symlink():  # as very old versions of git wrote it
        return f"ref: {os.readlink(head)}\n"
    return _read_small(head)


def _read_small(file: Path, most: int = MAX_HEAD_BYTES) -> str:
    """Returns the beginning of a regular file, and nothing for anything else: opening a pipe could wait for ever."""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(opened, "rb") as reader:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return ""
        return reader.read(most).decode("utf-8", "surrogateescape")
