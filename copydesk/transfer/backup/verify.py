"""Verifies a backup, file by file and row by row, without restoring it."""

from pathlib import Path

from copydesk.core.db.migrate import SCHEMA_VERSION
from copydesk.transfer.backup import table_dump
from copydesk.transfer.backup.analytics_copy import COPY_FILES, inspect_copy
from copydesk.transfer.backup.manifest import (
    MANIFEST_FILE,
    BackupDamaged,
    BackupTooNew,
    Manifest,
    checksum_file,
    read_manifest,
)
from copydesk.transfer.progress import Progress
from copydesk.transfer.row_codec import ROWS_PER_BATCH


def verify_backup(folder: Path, progress: Progress) -> Manifest:
    manifest = read_manifest(folder)
    views_file = COPY_FILES[manifest.analytics]
    if {*manifest.files} != {*list_files(folder)} or views_file not in manifest.files:
        missing = {*manifest.files, views_file} ^ {*list_files(folder)}
        raise BackupDamaged(f"{folder} is damaged: missing or unexpected files: {', '.join(sorted(missing))}.")
    for name, checksum in manifest.files.items():
        if checksum_file(folder / name) != checksum:
            raise BackupDamaged(f"{folder / name} is damaged: its checksum does not match.")
    if manifest.schema_version != SCHEMA_VERSION:
        raise BackupTooNew
    for name, expected in manifest.tables.items():
        for number, _ in enumerate(table_dump.read_lines(folder, name, expected), 1):
            if number % ROWS_PER_BATCH == 0:
                progress.advance(ROWS_PER_BATCH)
    if inspect_copy(manifest.analytics, folder / views_file) != (manifest.analytics_schema, manifest.analytics_rows):
        raise BackupDamaged(f"{folder / views_file} is damaged: its rows do not match.")
    return manifest


def list_files(folder: Path) -> list[str]:
    """Returns all files except the manifest, which cannot contain its own checksum."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return sorted(name for name in names if name != MANIFEST_FILE)
