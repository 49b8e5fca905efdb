"""What a back-up says of itself: versions, counts, checksums and sizes, and nothing of what it holds."""

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from copydesk.core.errors import Explained

NAME = "manifest.json"
FORMAT = 1


class NoBackup(Explained):
    message = "This is not a complete Copydesk backup."


class Damaged(Explained):
    """The back-up is not what was written; the message says where."""


class NewerBackup(Explained):
    message = "The backup was created by a newer version of Copydesk; restore it with that version."


class Part(BaseModel):
    model_config = ConfigDict(frozen=True)

    bytes: int
    sha256: str


class Rows(BaseModel):
    model_config = ConfigDict(frozen=True)

    columns: list[str]
    rows: int
    checksum: str
    """The sum of the SHA-256 of every line."""


class Manifest(BaseModel):
    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    version: str
    """Of the Copydesk that made it."""
    began: str
    """What was acknowledged before this moment is in it."""
    database: Literal["sqlite", "postgresql"]
    schema_version: str
    tables: dict[str, Rows]
    analytics: Literal["duckdb", "clickhouse"]
    analytics_schema: int
    analytics_rows: dict[str, int]
    settings: list[str]
    """The names of those that were set, as a reminder; never their values."""
    has_secret_key: bool
    files: dict[str, Part]

    def write(self, folder: Path) -> None:
        facts = self.model_dump()
        write_whole(folder / NAME, (json.dumps({**facts, "checksum": _checksum(facts)}, indent=2) + "\n").encode())


def read(folder: Path) -> Manifest:
    try:
        found = json.loads((folder / NAME).read_bytes())
        checksum = found.pop("checksum")
    except (OSError, ValueError, KeyError, AttributeError):
        raise NoBackup(f"{folder} is no back-up of Copydesk, or not a whole one: it has no sound {NAME}.") from None
    if isinstance(found.get("format"), int) and found["format"] > FORMAT:
        raise NewerBackup
    if _checksum(found) != checksum:
        raise Damaged(f"{folder / NAME} is not what was written.")
    try:
        return Manifest.model_validate(found)
    except ValidationError:
        raise NewerBackup from None


def part_of(path: Path) -> Part:
    """Reads the file back, to the end."""
    digest, size = sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            size += len(piece)
    return Part(bytes=size, sha256=digest.hexdigest())


def write_whole(path: Path, content: bytes) -> None:
    """Readable by its owner alone, and on the disk when this returns."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """A file's contents, or a folder's names, are on the disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(facts: dict[str, Any]) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
