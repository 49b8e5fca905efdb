"""Creates a backup: a consistent copy of all data in a folder, while the service keeps running."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from copydesk import __version__
from copydesk.analytics.ingest.site_registry import ranges_file
from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.errors import StoreFull
from copydesk.analytics.stores.shared.protocol import CallFailed
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import read_schema_version, reject_newer_schema
from copydesk.core.errors import StoreUnavailable, UserFacingError
from copydesk.core.runtime.durable_files import sync_to_disk, write_durably
from copydesk.core.settings import Settings, env_variable
from copydesk.transfer.backup.analytics_copy import COPY_FILES, AnalyticsEngine, inspect_copy
from copydesk.transfer.backup.manifest import Manifest, checksum_file
from copydesk.transfer.backup.table_dump import dump_tables, open_snapshot
from copydesk.transfer.backup.verify import list_files, verify_backup
from copydesk.transfer.progress import Progress

KEY_FILE, RANGES_FILE = "secret.key", "ranges.json"


class BackupFailed(UserFacingError):
    """The backup cannot be created; the message says why."""


def create_backup(
    settings: Settings,
    database: Database,
    store: Store,
    target: Path,
    progress: Progress,
    *,
    with_secret_key: bool = False,
) -> Manifest:
    """Creates a backup. The folder gets its final name when the backup is complete, verified and on disk.

    Copies the views before the database. A view's project, and the key that recognizes its visitors, were stored
    before the view, so the later copy of the database contains them."""
    started_at = clock.format_iso(clock.now())
    engine: AnalyticsEngine = "clickhouse" if settings.analytics_url else "duckdb"
    key_path = settings.data.absolute() / KEY_FILE
    if with_secret_key and (settings.secret_key or not key_path.exists()):
        raise BackupFailed("There is no key file to copy. Save a copy of COPYDESK_SECRET_KEY yourself.")
    with _unfinished_folder(target) as folder:
        progress.start_stage("views")
        views_copy = folder / COPY_FILES[engine]
        _copy_views(store, views_copy)
        schema, counts = inspect_copy(engine, views_copy)
        with open_snapshot(database) as tx:
            version = read_schema_version(tx)
            reject_newer_schema(version)
            if version is None:
                raise BackupFailed("The database is empty, so there is nothing to back up.")
            tables = dump_tables(tx, folder, progress)
        if ranges_file(settings.data).exists():
            write_durably(folder / RANGES_FILE, ranges_file(settings.data).read_bytes())
        if with_secret_key:
            write_durably(folder / KEY_FILE, key_path.read_bytes())
        progress.start_stage("verifying")
        for name in list_files(folder):
            sync_to_disk(folder / name)
        manifest = Manifest(
            version=__version__,
            began=started_at,
            database="sqlite" if database.is_sqlite else "postgresql",
            schema_version=version,
            tables=tables,
            analytics=engine,
            analytics_schema=schema,
            analytics_rows=counts,
            settings=sorted(map(env_variable, settings.model_fields_set)),
            has_secret_key=with_secret_key,
            files={name: checksum_file(folder / name) for name in list_files(folder)},
        )
        manifest.write(folder)
        verify_backup(folder, progress)
    return manifest


def _copy_views(store: Store, target: Path) -> None:
    """Copies the views. The process that has the store open writes the copy; another user may have started it."""
    try:
        store.back_up(target)
    except StoreFull:
        raise BackupFailed(f"Could not copy the views: the disk of {target.parent} is full.") from None
    except (StoreUnavailable, CallFailed) as error:
        raise BackupFailed(
            f"Could not copy the views: {error} The process that has them open must be able to write to"
            f" {target.parent}. Run the backup as the same user."
        ) from None


@contextmanager
def _unfinished_folder(target: Path) -> Iterator[Path]:
    """Yields a temporary folder, and renames it to `target` when it is complete.

    A failure deletes it. A killed process leaves it under its temporary name."""
    folder = target.with_name(f"{target.name}.unfinished")
    if target.exists():
        raise BackupFailed(f"{target} already exists. Choose a new folder.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BackupFailed(f"Another backup is being written to {folder}. Wait for it to finish.") from None
        _clear_folder(folder)
        try:
            yield folder
            for subfolder in (path for path in folder.rglob("*") if path.is_dir()):
                sync_to_disk(subfolder)
            sync_to_disk(folder)
            os.rename(folder, target)
            sync_to_disk(target.parent)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    finally:
        os.close(lock)


def _clear_folder(folder: Path) -> None:
    """Deletes the files of an earlier backup that was killed."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
