"""The manifest of an export: which files are finished. One line of JSON for each, so that adding one costs little."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from copydesk.core.errors import UserFacingError
from copydesk.core.runtime.durable_files import sync_to_disk, write_durably

MANIFEST_FILE = "manifest.jsonl"
MANIFEST_VERSION = 1


class NotAnExport(UserFacingError):
    """The folder cannot take this export; the message says why."""


@dataclass(frozen=True)
class ManifestEntry:
    """A finished file. The last line of a file is valid."""

    file: str
    dataset: str
    date: str
    rows: int
    bytes: int
    sha256: str
    complete: bool
    """False for raw views of which the store had deleted some before the export."""
    fingerprint: str
    """Stands for the data in the store when the file was written."""
    exported_at: str


class ExportManifest:
    def __init__(self, folder: Path, project_id: str) -> None:
        """Reads the manifest, or creates it. Raises NotAnExport if the folder is for something else."""
        self._path = folder / MANIFEST_FILE
        self._header = {"copydesk": "analytics export", "version": MANIFEST_VERSION, "project": project_id}
        self.entries: dict[str, ManifestEntry] = {}
        if self._path.exists():
            self._load(project_id)
        elif other := next(_list_other_files(folder), None):
            raise NotAnExport(
                f"{folder} is not an export: it has {other} and no {MANIFEST_FILE}. Choose a new or an empty folder."
            )
        self._rewrite()

    def add(self, entry: ManifestEntry) -> None:
        """Adds a finished file, durably."""
        with self._path.open("ab") as file:
            file.write(_to_line(entry))
            file.flush()
            os.fsync(file.fileno())
        self.entries[entry.file] = entry

    def _load(self, project_id: str) -> None:
        lines = self._path.read_bytes().split(b"\n")
        header = _parse_line(lines[0])
        if header is None or header.get("copydesk") != self._header["copydesk"]:
            raise NotAnExport(f"{self._path} is not the manifest of an export. Choose a new or an empty folder.")
        if header.get("version") != MANIFEST_VERSION:
            raise NotAnExport(f"A newer version of Copydesk wrote {self._path}. Upgrade, or choose another folder.")
        if header.get("project") != project_id:
            raise NotAnExport(f"{self._path.parent} has the export of project {header.get('project')}. Choose another.")
        for line in lines[1:]:
            if (fields := _parse_line(line)) is not None:  # None for the torn last line of a killed process
                entry = ManifestEntry(**fields)
                self.entries[entry.file] = entry

    def _rewrite(self) -> None:
        """Writes the header and one line for each file, without lines that are no longer valid."""
        new_path = self._path.with_name(f".{MANIFEST_FILE}.unfinished")
        lines = [json.dumps(self._header).encode() + b"\n", *map(_to_line, self.entries.values())]
        write_durably(new_path, b"".join(lines))
        os.replace(new_path, self._path)
        sync_to_disk(self._path.parent)


def _list_other_files(folder: Path) -> Iterator[str]:
    return (entry.name for entry in sorted(folder.iterdir()) if not entry.name.endswith(".unfinished"))


def _to_line(entry: ManifestEntry) -> bytes:
    return json.dumps(asdict(entry)).encode() + b"\n"


def _parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) else None
