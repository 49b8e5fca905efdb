"""Limits on the size of a repository. Each is checked before an object is read, by the size in its header."""

from dataclasses import dataclass

from copydesk.core.settings import Settings, env_variable
from copydesk.jobs.job import RepositoryFailed

MIB = 1024 * 1024


class RepositoryTooLarge(RepositoryFailed):
    """The repository exceeds a limit; the message names the limit and the setting that raises it."""


class FileTooLarge(RepositoryTooLarge):
    """A file exceeds the size limit. Jobs that do not need it continue without it."""


@dataclass(frozen=True)
class RepositoryLimits:
    """Limits on the size of a repository. Picklable, so that child processes apply the same limits."""

    entries: int = 200_000
    """Files, folders, links and submodules of one commit. An object counts once for each path that leads to it."""
    depth: int = 100
    """Levels of nested folders."""
    file_bytes: int = 64 * MIB
    mirror_bytes: int = 4096 * MIB
    """Disk space for the mirror of the repository."""
    git_bytes: int = 2048 * MIB
    """Memory that a git command may use."""

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
        """Returns the largest size of one folder object: room for all entries of the repository, with long names."""
        return self.entries * 320

    @property
    def path_chars(self) -> int:
        """Returns the largest number of characters of all paths together, which bounds the memory for listing them."""
        return self.entries * 320


DEFAULT_LIMITS = RepositoryLimits()
MAX_NAME_CHARS = 1024
MAX_COMMIT_BYTES = 16 * MIB


def too_many_files(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"The repository has more than {limits.entries:,} files and folders, which is the limit. Use a smaller "
        f"repository, or raise {env_variable('repository_files')}."
    )


def paths_too_long(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"The paths of the repository's files have more than {limits.path_chars:,} characters in total, which is the "
        f"limit. Shorten them, or raise {env_variable('repository_files')}."
    )


def too_deep(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"The repository has more than {limits.depth:,} levels of nested folders, which is the limit. Use fewer "
        f"levels, or raise {env_variable('repository_depth')}."
    )


def name_too_long() -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"A file or folder in the repository has a name of more than {MAX_NAME_CHARS:,} characters, which is the "
        "limit. Rename it."
    )


def file_too_large(size: int, limits: RepositoryLimits, path: str = "") -> FileTooLarge:
    return FileTooLarge(
        f"{path or 'A file in the repository'} is {size / MIB:,.0f} MiB; the limit is {limits.file_bytes // MIB:,} "
        f"MiB. Make it smaller, or raise {env_variable('repository_file_megabytes')}."
    )


def mirror_too_large(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"The repository takes more than {limits.mirror_bytes // MIB:,} MiB on disk, which is the limit. Use a smaller "
        f"repository, or raise {env_variable('repository_megabytes')}."
    )


def git_out_of_memory(limits: RepositoryLimits) -> RepositoryTooLarge:
    return RepositoryTooLarge(
        f"Git needed more than {limits.git_bytes // MIB:,} MiB of memory for the repository. Use a smaller repository, "
        f"or raise {env_variable('git_megabytes')}."
    )
