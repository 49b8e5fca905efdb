"""A back-up becomes the stores that the settings name: all of it, or nothing."""

import os
import shutil
from contextlib import ExitStack, closing
from pathlib import Path

from sqlalchemy import Connection, select, text

from copydesk.analytics.stores.duckdb.database import SCHEMA
from copydesk.analytics.stores.shared.server import FILE
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import HEAD, UNFINISHED, refuse_newer, schema_of, versions
from copydesk.core.db.tables import secrets
from copydesk.core.errors import Explained
from copydesk.core.projects.sealed_secrets import CannotUnseal, Secrets
from copydesk.core.settings import Settings
from copydesk.transfer.backup import analytics_copy as copies
from copydesk.transfer.backup.analytics_copy import FILES
from copydesk.transfer.backup.create import KEY, RANGES
from copydesk.transfer.backup.manifest import Manifest, NewerBackup, sync
from copydesk.transfer.backup.table_load import load
from copydesk.transfer.backup.verify import verify
from copydesk.transfer.exclusive_access import alone, analytics_alone
from copydesk.transfer.progress import Progress
from copydesk.transfer.table_contents import told

VERSION = text("update alembic_version set version_num = :version")


class CannotRestore(Explained):
    """The back-up does not fit the stores that the settings name; the message says why."""


class WouldBeLost(Explained):
    """There is something where the back-up would go; the message says what."""


def restore(settings: Settings, source: Path, progress: Progress, *, replace: bool) -> Manifest:
    """Nothing is changed before all of it lies ready. Then the database commits, and says that it is not whole until
    the files have their places and ClickHouse is filled. Killed in between, it can be run again: a file that has its
    place already is known by its checksum."""
    progress.begin("checking")
    manifest = verify(source, progress)
    _refuse_unfit(settings, manifest)
    settings.make_data_folder()
    data, url = settings.data.absolute(), settings.analytics_url
    with ExitStack() as undoing, analytics_alone(data), alone(settings.database) as tx:
        with tx.begin():
            kept = _kept(tx)
            if not replace:
                _refuse_loss(settings, kept, source, manifest)
            places = _places(settings, source, manifest)
            staged = {place: _staged(undoing, place, copy) for place, copy in places.items()}
            load(tx, source, manifest, progress)
            tx.execute(VERSION, {"version": UNFINISHED})
        progress.begin("putting it in place")
        for place, ready in staged.items():
            copies.make_way(place)
            os.replace(ready, place)
        sync(data)
        if not url:
            with tx.begin():
                tx.execute(VERSION, {"version": HEAD})
    if url:
        progress.begin("views")
        _fill(url, settings.database, source / FILES["clickhouse"])
    return manifest


def _refuse_unfit(settings: Settings, manifest: Manifest) -> None:
    url, newest = settings.analytics_url, SCHEMA
    if manifest.analytics == "duckdb" and url:
        raise CannotRestore(
            "The back-up holds the views of an embedded store: restore it without COPYDESK_ANALYTICS_URL, then move"
            " them with 'copydesk migrate-stores --to-analytics'."
        )
    if manifest.analytics == "clickhouse" and not url:
        raise CannotRestore("The back-up holds views of ClickHouse: name an empty one in COPYDESK_ANALYTICS_URL.")
    if url:
        from copydesk.analytics.stores.clickhouse.connection.cluster import cluster_at
        from copydesk.analytics.stores.clickhouse.connection.url import address_of
        from copydesk.analytics.stores.clickhouse.schema import NUMBER
        from copydesk.transfer.clickhouse_target import require_empty_target

        newest = NUMBER
        with closing(cluster_at(address_of(url))) as cluster:
            require_empty_target(cluster)
    if manifest.schema_version not in versions() or manifest.analytics_schema > newest:
        raise NewerBackup


def _places(settings: Settings, source: Path, manifest: Manifest) -> dict[Path, Path]:
    """Which files go where."""
    data = settings.data.absolute()
    places = {data / RANGES: source / RANGES} if RANGES in manifest.files else {}
    if manifest.has_secret_key and not settings.secret_key:
        places[data / KEY] = source / KEY
    if manifest.analytics == "duckdb" and not copies.is_same(data, source / FILE):
        places[data / FILE] = source / FILE
    return places


def _fill(url: str, main: str, copy: Path) -> None:
    from copydesk.analytics.stores.clickhouse import ClickHouseStore

    database = Database(main)
    store = ClickHouseStore(url, database)
    try:
        store.restore(copy)
        with database.write() as tx:
            tx.execute(VERSION, {"version": HEAD})
    finally:
        store.close()
        database.close()


def still_sealed(settings: Settings) -> int:
    """Of how many projects the key at hand opens no secrets. Where there is no key, none is made."""
    has_key = settings.secret_key or (settings.data.absolute() / KEY).exists()
    database = Database(settings.database)
    try:
        with database.read() as tx:
            projects = tx.execute(select(secrets.c.project_id).distinct()).scalars().all()
        return sum(not has_key or _is_sealed(Secrets(database, settings), project) for project in projects)
    finally:
        database.close()


def _is_sealed(known: Secrets, project_id: str) -> bool:
    try:
        known.all(project_id)
    except CannotUnseal:
        return True
    return False


def _kept(tx: Connection) -> str:
    """What the database holds, in words. Nobody misses what a restore or a move has half filled."""
    version = schema_of(tx)
    if version == UNFINISHED:
        return ""
    refuse_newer(version)
    return told(tx)


def _refuse_loss(settings: Settings, kept: str, source: Path, manifest: Manifest) -> None:
    data = settings.data.absolute()
    found = [kept] if kept else []
    if manifest.analytics == "duckdb" and not copies.is_same(data, source / FILE) and (views := copies.views_in(data)):
        found.append(f"{views:,} views and visits")
    key = data / KEY
    if manifest.has_secret_key and key.exists() and key.read_bytes() != (source / KEY).read_bytes():
        found.append(f"another key in {KEY}")
    if found:
        raise WouldBeLost(f"This would be lost: {', '.join(found)}. Say --replace if that is what you want.")


def _staged(undoing: ExitStack, place: Path, copy: Path) -> Path:
    """Beside its place, so that taking it is a matter of a moment."""
    ready = place.with_name(f"{place.name}.restoring")
    undoing.callback(ready.unlink, missing_ok=True)
    shutil.copyfile(copy, ready)
    ready.chmod(0o600)
    sync(ready)
    return ready
