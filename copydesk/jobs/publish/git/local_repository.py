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

LINKED_ENTRIES = ("objects", "refs", "packed-refs", "shallow", "logs", "reftable")
COPIED_EXTENSIONS = ("objectformat", "refstorage")
"""Of the configuration only these extensions are taken over, and `core.sharedRepository`; none can name a command."""
MAX_HEAD_BYTES = 4096
MAX_CONFIG_BYTES = 1024 * 1024
SECTION_PATTERN = re.compile(r"\[([A-Za-z0-9.-]+)\]")


@dataclass(frozen=True)
class LocalRepository:
    """`own` holds HEAD; `common` holds objects and branches, and is another folder for a linked work tree."""

    path: str
    git_dir: Path
    common_dir: Path

    @classmethod
    def find(cls, address: str) -> "LocalRepository":
        """Finds the repository as git would, by a path or a file:// address; RepositoryFailed where there is none."""
        path = unquote(urlsplit(address).path) if address.startswith("file://") else address
        for candidate in (f"{path}/.git", path, f"{path}.git/.git", f"{path}.git"):
            git_dir = _find_git_dir(Path(candidate))
            if git_dir is not None:
                repository = cls(path, git_dir, _find_common_dir(git_dir))
                repository._refuse_other_owners()
                return repository
        raise RepositoryFailed(f"'{path}' does not appear to be a git repository on this machine.")

    @contextmanager
    def open_view(self) -> Iterator[Path]:
        """A bare repository to run git in, with the branches and objects of this one and a configuration of ours."""
        with TemporaryDirectory(prefix="copydesk-view-") as name:
            folder = Path(name, "view.git")
            folder.mkdir()
            for entry in LINKED_ENTRIES:
                if entry == "packed-refs" or (self.common_dir / entry).exists():
                    (folder / entry).symlink_to(self.common_dir / entry)
            (folder / "HEAD").write_text(_read_head(self.git_dir), errors="surrogateescape")
            (folder / "config").write_text(self._build_config())
            yield folder

    def refuse_checked_out(self, branch: str) -> None:
        """Raises RepositoryFailed where a work tree has the branch checked out: its files would not be the branch's."""
        heads = [self.common_dir / "HEAD"] if not self._is_bare() else []
        heads += (self.common_dir / "worktrees").glob("*/HEAD")
        if f"ref: refs/heads/{branch}" in [_read_head(head.parent).strip() for head in heads]:
            raise RepositoryFailed(
                f"The branch {branch} is checked out in {self.path}, so Copydesk does not move it. Merge it there with "
                "git, or check out another branch there and try again."
            )

    def _build_config(self) -> str:
        extensions = self._read_settings("extensions", COPIED_EXTENSIONS)
        core_settings = self._read_settings("core", ("sharedrepository",))
        lines = [f"\trepositoryFormatVersion = {1 if extensions else 0}", "\tbare = true"]
        lines += [f"\t{name} = {value}" for name, value in core_settings.items()]
        lines += ["\tlogAllRefUpdates = true"] if (self.common_dir / "logs").is_dir() else []
        lines += ["[extensions]", *(f"\t{name} = {value}" for name, value in extensions.items())] if extensions else []
        return "\n".join(["[core]", *lines, ""])

    def _read_settings(self, section_name: str, names: tuple[str, ...]) -> dict[str, str]:
        """Returns what a section of its configuration says, without what it includes; one plain word for each name."""
        settings, current_section = dict[str, str](), ""
        for line in _read_small(self.common_dir / "config", MAX_CONFIG_BYTES).splitlines():
            if heading := SECTION_PATTERN.match(line.strip()):
                current_section = heading[1].lower()
            name, _, value = (part.strip() for part in line.partition("="))
            if current_section == section_name and name.lower() in names and value.isalnum():
                settings[name.lower()] = value
        return settings

    def _is_bare(self) -> bool:
        bare = self._read_settings("core", ("bare",)).get("bare", "")
        return bare.lower() in ("true", "yes", "on", "1") if bare else self.common_dir.name != ".git"

    def _refuse_other_owners(self) -> None:
        """What the service writes there would be the service's own, and in the owner's way."""
        for folder in (self.git_dir, self.common_dir):
            if folder.stat().st_uid != os.geteuid():
                raise RepositoryFailed(
                    f"{self.path} belongs to another user than the one that Copydesk runs as. Run Copydesk as its "
                    "owner, or change its owner."
                )


def _find_git_dir(path: Path) -> Path | None:
    try:
        if path.is_file():  # of a linked work tree or a submodule: it names the folder
            path = path.parent / _read_small(path).strip().removeprefix("gitdir: ")
        common_dir = _find_common_dir(path)
        is_git_dir = (
            os.path.lexists(path / "HEAD") and (common_dir / "objects").is_dir() and (common_dir / "refs").is_dir()
        )
    except (OSError, ValueError):
        return None
    return path.absolute() if is_git_dir else None


def _find_common_dir(git_dir: Path) -> Path:
    common_path = _read_small(git_dir / "commondir").strip()
    return Path(os.path.normpath(git_dir.absolute() / common_path)) if common_path else git_dir.absolute()


def _read_head(folder: Path) -> str:
    head = folder / "HEAD"
    if head.is_symlink():  # as very old versions of git wrote it
        return f"ref: {os.readlink(head)}\n"
    return _read_small(head)


def _read_small(file: Path, max_bytes: int = MAX_HEAD_BYTES) -> str:
    """Returns the beginning of a regular file, and nothing for anything else: opening a pipe could wait for ever."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as reader:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return reader.read(max_bytes).decode("utf-8", "surrogateescape")
