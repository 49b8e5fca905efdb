"""The manifest of a backup: versions, counts, checksums and sizes, without any of its contents."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from copydesk.core.errors import UserFacingError
from copydesk.core.runtime.durable_files import write_durably

MANIFEST_FILE = "manifest.json"
FORMAT_VERSION = 1


class NotABackup(UserFacingError):
    message = "This is not a complete Copydesk backup."


class BackupDamaged(UserFacingError):
    """The backup differs from what was written; the message says where."""


class BackupTooNew(UserFacingError):
    message = "The backup was created by a newer version of Copydesk; restore it with that version."


class FileChecksum(BaseModel):
    model_config = ConfigDict(frozen=True)

    bytes: int
    sha256: str


class TableSummary(BaseModel):
    model_config = ConfigDict(frozen=True)

    rows: int
    checksum: str
    """Sum of the SHA-256 of all lines."""


class Manifest(BaseModel):
    model_config = ConfigDict(frozen=True)

    format: int = FORMAT_VERSION
    version: str
    """Version of Copydesk that created the backup."""
    began: str
    """When the backup began. It contains everything that was acknowledged before."""
    database: Literal["sqlite", "postgresql"]
    schema_version: str
    tables: dict[str, TableSummary]
    analytics: Literal["duckdb", "clickhouse"]
    analytics_schema: int
    analytics_rows: dict[str, int]
    settings: list[str]
    """Names of the settings that were set, as a reminder; never their values."""
    has_secret_key: bool
    files: dict[str, FileChecksum]

    def write(self, folder: Path) -> None:
        fields = self.model_dump()
        write_durably(
            folder / MANIFEST_FILE,
            (json.dumps({**fields, "checksum": _compute_checksum(fields)}, indent=2) + "\n").encode(),
        )


def read_manifest(folder: Path) -> Manifest:
    try:
        fields = json.loads((folder / MANIFEST_FILE).read_bytes())
        checksum = fields.pop("checksum")
    except (OSError, ValueError, KeyError, AttributeError):
        raise NotABackup(f"{folder} is not a complete Copydesk backup: it has no valid {MANIFEST_FILE}.") from None
    if isinstance(fields.get("format"), int) and fields["format"] > FORMAT_VERSION:
        raise BackupTooNew
    if _compute_checksum(fields) != checksum:
        raise BackupDamaged(f"{folder / MANIFEST_FILE} is damaged: its checksum does not match.")
    try:
        return Manifest.model_validate(fields)
    except ValidationError:
        raise BackupTooNew from None


def checksum_file(path: Path) -> FileChecksum:
    """Reads the whole file and returns its size and SHA-256."""
    digest = sha256()
    size = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return FileChecksum(bytes=size, sha256=digest.hexdigest())


def _compute_checksum(fields: dict[str, Any]) -> str:
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
