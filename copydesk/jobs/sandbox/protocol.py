"""What the warden is told and what it answers, as one line of JSON each."""

import json
from dataclasses import dataclass
from typing import Literal

MIB = 1024 * 1024
Backend = Literal["bubblewrap", "landlock"]
Ending = Literal["ended", "time", "disk", "files", "memory", "sockets", "stopped", "broken"]


@dataclass(frozen=True)
class Limits:
    """What a command may take, with everything it starts."""

    written: int = 1024 * MIB
    files: int = 200_000
    """Files and folders, with those of the copy that it runs on."""
    memory: int = 3072 * MIB
    sockets: int = 1024
    """Each holds up to a few hundred kilobytes of memory that belongs to no process."""
    processes: int = 256
    output: int = 64_000


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class SandboxRequest:
    """`folder` holds `work`, where the command runs, and `tmp`; it is the warden's to remove."""

    backend: Backend
    command: str
    folder: str
    seconds: float
    readable: list[str]
    """Folders that can be read beside the system's own."""
    uid: int | None = None
    """Whom to become before anything else; None to stay who we are."""
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def from_json(cls, data: bytes) -> "SandboxRequest":
        values = json.loads(data)
        return cls(**values | {"limits": Limits(**values["limits"])})


@dataclass(frozen=True)
class SandboxResult:
    """`status` is the command's own; `output` the last of what it printed, or why it could not be started."""

    ending: Ending
    status: int
    output: str
