"""Access to a repository on this machine without running commands that its owner configured.

A repository's configuration and hooks name commands (filters, a file system monitor, programs for promisor remotes),
which git would run as the service's user. So git works in another folder, which has a configuration written by Copydesk
and symbolic links to the repository's objects and branches.
"""

import os
import re
import shlex
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
"""The only extensions that are copied from the configuration, besides `core.sharedRepository`. None names a command."""
MAX_HEAD_BYTES = 4096
MAX_CONFIG_BYTES = 1024 * 1024
SECTION_PATTERN = re.compile(r"\[([A-Za-z0-9.-]+)\]")


@dataclass(frozen=True)
class LocalRepository:
    """A git repository on this machine.

    `git_dir` contains HEAD. `common_dir` contains objects and branches; for a linked work tree it is another folder.
    """

    path: str
    git_dir: Path
    common_dir: Path

    @classmethod
    def find(cls, address: str) -> "LocalRepository":
        """Finds the repository at a path or file:// URL by git's rules. Raises RepositoryFailed if there is none."""
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
        """Yields a temporary bare repository with these branches and objects and with Copydesk's configuration."""
        with TemporaryDirectory(prefix="copydesk-view-") as name:
            folder = Path(name, "view.git")
            folder.mkdir()
            for entry in LINKED_ENTRIES:
                if entry == "packed-refs" or (self.common_dir / entry).exists():
                    (folder / entry).symlink_to(self.common_dir / entry)
            (folder / "HEAD").write_text(_read_head(self.git_dir), errors="surrogateescape")
            (folder / "config").write_text(self._build_config())
            yield folder

    def find_work_tree(self, branch: str) -> Path | None:
        """Returns the work tree in which the branch is checked out, or None."""
        git_dirs = [self.common_dir] if not self._is_bare() else []
        git_dirs += (head.parent for head in sorted((self.common_dir / "worktrees").glob("*/HEAD")))
        for git_dir in git_dirs:
            if _read_head(git_dir).strip() == f"ref: refs/heads/{branch}":
                return self._locate_work_tree(git_dir)
        return None

    def refuse_checked_out(self, branch: str) -> None:
        """Raises RepositoryFailed if the branch is checked out in a work tree, whose files would no longer match it."""
        work_tree = self.find_work_tree(branch)
        if work_tree is not None:
            raise RepositoryFailed(
                f"The branch {branch} is checked out in {work_tree}, so Copydesk does not move it. Merge it there with "
                "git, or check out another branch there and try again."
            )

    def _locate_work_tree(self, git_dir: Path) -> Path:
        """Returns the folder with the files of a git directory. A linked work tree's `gitdir` names its .git file."""
        if git_dir == self.common_dir:
            return git_dir.parent if git_dir.name == ".git" else Path(self.path)
        link = _read_small(git_dir / "gitdir").strip()
        return Path(os.path.normpath(git_dir / link)).parent if link else Path(self.path)

    def _build_config(self) -> str:
        extensions = self._read_settings("extensions", COPIED_EXTENSIONS)
        core_settings = self._read_settings("core", ("sharedrepository",))
        lines = [f"\trepositoryFormatVersion = {1 if extensions else 0}", "\tbare = true"]
        lines += [f"\t{name} = {value}" for name, value in core_settings.items()]
        lines += ["\tlogAllRefUpdates = true"] if (self.common_dir / "logs").is_dir() else []
        lines += ["[extensions]", *(f"\t{name} = {value}" for name, value in extensions.items())] if extensions else []
        return "\n".join(["[core]", *lines, ""])

    def _read_settings(self, section_name: str, names: tuple[str, ...]) -> dict[str, str]:
        """Returns these settings of a section if their values are alphanumeric. Ignores included files."""
        settings = dict[str, str]()
        current_section = ""
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
        """Raises RepositoryFailed if another user owns the repository.

        The owner could not change files that Copydesk creates there.
        """
        for folder in (self.git_dir, self.common_dir):
            if folder.stat().st_uid != os.geteuid():
                raise RepositoryFailed(
                    f"{self.path} belongs to another user than the one that Copydesk runs as. Run Copydesk as its "
                    "owner, or change its owner."
                )


def find_work_tree(address: str, branch: str) -> Path | None:
    """Returns the work tree in which a branch of this repository is checked out.

    Returns None for a repository on another machine and for one that cannot be found.
    """
    if address.startswith(("http://", "https://")):
        return None
    try:
        return LocalRepository.find(address).find_work_tree(branch)
    except (RepositoryFailed, OSError):
        return None


def build_merge_command(work_tree: Path, branch: str) -> str:
    """Returns the shell command that merges the branch into the branch that is checked out in the work tree."""
    return shlex.join(["git", "-C", str(work_tree), "merge", branch])


def _find_git_dir(path: Path) -> Path | None:
    try:
        if path.is_file():  # a linked work tree or a submodule has a file that names the folder
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
    if head.is_symlink():  # very old versions of git wrote HEAD as a link
        return f"ref: {os.readlink(head)}\n"
    return _read_small(head)


def _read_small(file: Path, max_bytes: int = MAX_HEAD_BYTES) -> str:
    """Returns the beginning of a regular file, or "" for anything else, because reading a pipe could block forever."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as reader:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return reader.read(max_bytes).decode("utf-8", "surrogateescape")
