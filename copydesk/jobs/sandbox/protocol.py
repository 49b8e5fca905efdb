"""The request to the supervisor and its result, each as one line of JSON."""

import json
from dataclasses import dataclass
from typing import Literal

MIB = 1024 * 1024
Backend = Literal["bubblewrap", "landlock"]
Ending = Literal["ended", "time", "disk", "files", "memory", "sockets", "stopped", "broken"]


@dataclass(frozen=True)
class Limits:
    """Limits of a command together with all processes that it starts; sizes are in bytes."""

    written: int = 1024 * MIB
    files: int = 200_000
    """Files and folders, including those of the copy that the command runs on."""
    memory: int = 3072 * MIB
    sockets: int = 1024
    """Each socket can use a few hundred kilobytes of memory that belongs to no process."""
    processes: int = 256
    output: int = 64_000


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class SandboxRequest:
    """A command to run. `folder` contains `work`, where the command runs, and `tmp`; the supervisor removes it."""

    backend: Backend
    command: str
    folder: str
    seconds: float
    readable: list[str]
    """Folders that the command can read in addition to the system's."""
    uid: int | None = None
    """User ID that the command runs as; None means the current user."""
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def from_json(cls, data: bytes) -> "SandboxRequest":
        values = json.loads(data)
        return cls(**values | {"limits": Limits(**values["limits"])})


@dataclass(frozen=True)
class SandboxResult:
    """How a command ended.

    `status` is its exit status; a negative value is the signal that ended it. `output` is the end of its output, or the
    reason why it could not be run.
    """

    ending: Ending
    status: int
    output: str
