"""How much of a repository Copydesk reads. Each bound is tested before the reading, by what git says of an object."""

from dataclasses import dataclass

from copydesk.core.settings import Settings, env_variable
from copydesk.jobs.job import RepositoryFailed

MIB = 1024 * 1024


class RepositoryTooLarge(RepositoryFailed):
    """The repository is beyond a bound; the message names the bound and the setting that raises it."""


class FileTooLarge(RepositoryTooLarge):
    """A file is larger than any file that is read; jobs that do not need it go on without it."""


@dataclass(frozen=True)
class RepositoryLimits:
    """Picklable, so that a child process that reads a repository holds to the same bounds."""

    entries: int = 200_000
    """Files, folders, links and submodules of one commit, counted at every path that leads to them."""
    depth: int = 100
    """Folders inside each other."""
    file_bytes: int = 64 * MIB
    mirror_bytes: int = 4096 * MIB
    """What the mirror of the repository may take on disk."""
    git_bytes: int = 2048 * MIB
    """Memory that a git command may take."""

    @classmethod
    def from_settings(cls, settings: Settings) -> "RepositoryLimits":
        return cls(
            entries=settings.repository_files,
            depth=settings.repository_depth,
            file_bytes=settings.repository_file_megabytes * MIB,
            mirror_bytes=settings.repository_megabytes * MIB,
            git_bytes=settings.git_megabytes * MIB,
        )

    @property
    def folder_bytes(self) -> int:
        """Bytes of one folder's list: as many entries as a repository may have, with long names."""
        return self.entries * 320

    @property
    def path_chars(self) -> int:
        """Characters of all paths together: what a list of them takes in memory."""
        return self.entries * 320


DEFAULT_LIMITS = RepositoryLimits()
MAX_NAME_CHARS = 1024
MAX_COMMIT_BYTES = 16 * MIB


def too_many_files(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"The repository has more than {limits.entries:,} files and folders, the most that Copydesk reads. Use a "
        f"smaller repository, or raise {env_variable('repository_files')}."
    )


def paths_too_long(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"The paths of the repository's files have more than {limits.path_chars:,} characters together, the most that "
        f"Copydesk reads. Shorten them, or raise {env_variable('repository_files')}."
    )


def too_deep(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"The repository has more than {limits.depth:,} folders inside each other, the most that Copydesk reads. Use "
        f"a flatter repository, or raise {env_variable('repository_depth')}."
    )


def name_too_long() -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"A file or folder of the repository has a name of more than {MAX_NAME_CHARS:,} characters, the most that "
        "Copydesk reads. Rename it."
    )


def file_too_large(size: int, limits: RepositoryLimits, path: str = "") -> FileTooLarge:
    return FileTooLarge(
        f"{path or 'A file of the repository'} has {size / MIB:,.0f} MiB; Copydesk reads files of at most "
        f"{limits.file_bytes // MIB:,} MiB. Make it smaller, or raise {env_variable('repository_file_megabytes')}."
    )


def mirror_too_large(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"The repository takes more than {limits.mirror_bytes // MIB:,} MiB, the most that Copydesk keeps of one. Use "
        f"a smaller repository, or raise {env_variable('repository_megabytes')}."
    )


def git_out_of_memory(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"Git needed more than {limits.git_bytes // MIB:,} MiB of memory for the repository. Use a smaller repository, "
        f"or raise {env_variable('git_megabytes')}."
    )
