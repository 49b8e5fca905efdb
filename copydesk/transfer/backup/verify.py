"""Whether a back-up is what was written, file by file and row by row. Nothing is restored for it."""

from pathlib import Path

from copydesk.transfer.backup import table_dump as dump
from copydesk.transfer.backup.analytics_copy import FILES, holds
from copydesk.transfer.backup.manifest import NAME, Damaged, Manifest, NewerBackup, part_of, read
from copydesk.transfer.progress import Progress
from copydesk.transfer.row_codec import AT_ONCE, TABLES


def verify(folder: Path, progress: Progress) -> Manifest:
    manifest = read(folder)
    views = FILES[manifest.analytics]
    if {*manifest.files} != {*files_of(folder)} or views not in manifest.files:
        missing = {*manifest.files, views} ^ {*files_of(folder)}
        raise Damaged(f"{folder} does not hold the files that were written: see {', '.join(sorted(missing))}.")
    for name, part in manifest.files.items():
        if part_of(folder / name) != part:
            raise Damaged(f"{folder / name} is not what was written.")
    for name, wanted in manifest.tables.items():
        if name not in TABLES or not {*wanted.columns} <= {*TABLES[name].columns.keys()}:
            raise NewerBackup
        for number, _ in enumerate(dump.read(folder, name, wanted), 1):
            if number % AT_ONCE == 0:
                progress.advance(AT_ONCE)
    if holds(manifest.analytics, folder / views) != (manifest.analytics_schema, manifest.analytics_rows):
        raise Damaged(f"{folder / views} does not hold the rows that were written.")
    return manifest


def files_of(folder: Path) -> list[str]:
    """All but the manifest, which cannot name itself."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return sorted(name for name in found if name != NAME)
