"""One consistent copy of all that matters, in a folder, while everything goes on."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from copydesk import __version__
from copydesk.analytics.ingest.site_registry import ranges_file
from copydesk.analytics.stores.base import Store, StoreFull
from copydesk.analytics.stores.shared.protocol import CallFailed
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import refuse_newer, schema_of
from copydesk.core.errors import Explained, StoreDown
from copydesk.core.settings import Settings, variable
from copydesk.transfer.backup.analytics_copy import FILES, Engine, holds
from copydesk.transfer.backup.manifest import Manifest, part_of, sync, write_whole
from copydesk.transfer.backup.table_dump import dump, snapshot
from copydesk.transfer.backup.verify import files_of, verify
from copydesk.transfer.progress import Progress

KEY, RANGES = "secret.key", "ranges.json"


class CannotBackUp(Explained):
    """The back-up cannot be made; the message says why."""


def back_up(
    settings: Settings,
    database: Database,
    store: Store,
    target: Path,
    progress: Progress,
    *,
    with_secret_key: bool = False,
) -> Manifest:
    """Under another name until it is whole, checked and on the disk.

    The views are copied before the database: whatever they refer to, a project and the key that its visitors are
    recognised by, was there before them, so it is in the copy that is made after."""
    began = clock.iso(clock.now())
    engine: Engine = "clickhouse" if settings.analytics_url else "duckdb"
    key = settings.data.absolute() / KEY
    if with_secret_key and (settings.secret_key or not key.exists()):
        raise CannotBackUp("There is no file of the key to copy: keep a copy of COPYDESK_SECRET_KEY itself.")
    with _unfinished(target) as folder:
        progress.begin("views")
        views = folder / FILES[engine]
        _copy_views(store, views)
        schema, counts = holds(engine, views)
        with snapshot(database) as tx:
            version = schema_of(tx)
            refuse_newer(version)
            if version is None:
                raise CannotBackUp("There is nothing in the database yet.")
            tables = dump(tx, folder, progress)
        if ranges_file(settings.data).exists():
            write_whole(folder / RANGES, ranges_file(settings.data).read_bytes())
        if with_secret_key:
            write_whole(folder / KEY, key.read_bytes())
        progress.begin("checking")
        for name in files_of(folder):
            sync(folder / name)
        manifest = Manifest(
            version=__version__,
            began=began,
            database="sqlite" if database.is_sqlite else "postgresql",
            schema_version=version,
            tables=tables,
            analytics=engine,
            analytics_schema=schema,
            analytics_rows=counts,
            settings=sorted(map(variable, settings.model_fields_set)),
            has_secret_key=with_secret_key,
            files={name: part_of(folder / name) for name in files_of(folder)},
        )
        manifest.write(folder)
        verify(folder, progress)
    return manifest


def _copy_views(store: Store, target: Path) -> None:
    """The process that has the file open writes the copy, which may be another one, of another user."""
    try:
        store.back_up(target)
    except StoreFull:
        raise CannotBackUp(f"The views could not be copied: the disk of {target.parent} is full.") from None
    except (StoreDown, CallFailed) as error:
        raise CannotBackUp(
            f"The views could not be copied: {error} The process that holds them must be able to write to"
            f" {target.parent}: run the back-up as the same user."
        ) from None


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """A folder that gets its name when it is whole; what fails leaves nothing, what is killed nothing of that name."""
    folder = target.with_name(f"{target.name}.unfinished")
    if target.exists():
        raise CannotBackUp(f"{target} exists; name a new folder.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotBackUp(f"Another back-up is being written to {folder}.") from None
        _empty(folder)
        try:
            yield folder
            for inner in (path for path in folder.rglob("*") if path.is_dir()):
                sync(inner)
            sync(folder)
            os.rename(folder, target)
            sync(target.parent)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    finally:
        os.close(lock)


def _empty(folder: Path) -> None:
    """What an earlier one left that was killed."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
