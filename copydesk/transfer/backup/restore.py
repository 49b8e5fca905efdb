"""Restores a backup into the stores that the settings name: all of it, or nothing."""

import os
import shutil
from contextlib import ExitStack, closing
from pathlib import Path

from sqlalchemy import Connection, select, text

from copydesk.analytics.stores.duckdb.database import DUCKDB_SCHEMA_VERSION
from copydesk.analytics.stores.shared.server import DUCKDB_FILE
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import (
    SCHEMA_VERSION,
    UNFINISHED_VERSION,
    read_schema_version,
    reject_newer_schema,
)
from copydesk.core.db.tables import secrets
from copydesk.core.errors import UserFacingError
from copydesk.core.projects.sealed_secrets import CannotUnseal, SealedSecrets
from copydesk.core.runtime.durable_files import sync_to_disk
from copydesk.core.settings import Settings
from copydesk.core.text.plurals import pluralize
from copydesk.transfer.backup import analytics_copy
from copydesk.transfer.backup.analytics_copy import COPY_FILES
from copydesk.transfer.backup.create import KEY_FILE, RANGES_FILE
from copydesk.transfer.backup.manifest import BackupTooNew, Manifest
from copydesk.transfer.backup.table_load import load_tables
from copydesk.transfer.backup.verify import verify_backup
from copydesk.transfer.exclusive_access import exclusive_analytics_access, exclusive_connection
from copydesk.transfer.progress import Progress
from copydesk.transfer.table_contents import describe_contents

UPDATE_SCHEMA_VERSION = text("update alembic_version set version_num = :version")


class RestoreFailed(UserFacingError):
    """The backup does not fit the stores that the settings name; the message says why."""


class DataWouldBeLost(UserFacingError):
    """The restore would overwrite existing data; the message says which."""


def restore_backup(settings: Settings, source: Path, progress: Progress, *, replace: bool) -> Manifest:
    """Restores a backup. Changes nothing until all files are staged and the database is loaded.

    Then the database commits with a schema version that marks it as unfinished, until the files are in place and
    ClickHouse is filled. If the process is killed in between, run it again: a file that is already in place is
    recognized by its checksum."""
    progress.start_stage("verifying")
    manifest = verify_backup(source, progress)
    _check_compatibility(settings, manifest)
    settings.make_data_folder()
    data = settings.data.absolute()
    url = settings.analytics_url
    with (
        ExitStack() as cleanup,
        exclusive_analytics_access(data),
        exclusive_connection(settings.resolved_database_url) as tx,
    ):
        with tx.begin():
            existing = _describe_existing(tx)
            if not replace:
                _refuse_data_loss(settings, existing, source, manifest)
            sources = _plan_files(settings, source, manifest)
            staged = {target: _stage_file(cleanup, target, copy) for target, copy in sources.items()}
            load_tables(tx, source, manifest, progress)
            tx.execute(UPDATE_SCHEMA_VERSION, {"version": UNFINISHED_VERSION})
        progress.start_stage("moving files into place")
        for place, staged_file in staged.items():
            analytics_copy.delete_side_files(place)
            os.replace(staged_file, place)
        sync_to_disk(data)
        if not url:
            with tx.begin():
                tx.execute(UPDATE_SCHEMA_VERSION, {"version": SCHEMA_VERSION})
    if url:
        progress.start_stage("views")
        _restore_clickhouse(url, settings.resolved_database_url, source / COPY_FILES["clickhouse"])
    return manifest


def _check_compatibility(settings: Settings, manifest: Manifest) -> None:
    url = settings.analytics_url
    newest_schema = DUCKDB_SCHEMA_VERSION
    if manifest.analytics == "duckdb" and url:
        raise RestoreFailed(
            "The backup contains views of an embedded store. Restore it without COPYDESK_ANALYTICS_URL, then move"
            " the views with 'copydesk migrate-stores --to-analytics'."
        )
    if manifest.analytics == "clickhouse" and not url:
        raise RestoreFailed("The backup contains views of ClickHouse. Set COPYDESK_ANALYTICS_URL to an empty database.")
    if url:
        from copydesk.analytics.stores.clickhouse.connection.cluster import build_cluster
        from copydesk.analytics.stores.clickhouse.connection.url import parse_clickhouse_url
        from copydesk.analytics.stores.clickhouse.schema import CLICKHOUSE_SCHEMA_VERSION
        from copydesk.transfer.clickhouse_target import require_empty_target

        newest_schema = CLICKHOUSE_SCHEMA_VERSION
        with closing(build_cluster(parse_clickhouse_url(url))) as cluster:
            require_empty_target(cluster)
    if manifest.analytics_schema > newest_schema:
        raise BackupTooNew


def _plan_files(settings: Settings, source: Path, manifest: Manifest) -> dict[Path, Path]:
    """Returns the files to restore: the source by its target."""
    data = settings.data.absolute()
    sources = {data / RANGES_FILE: source / RANGES_FILE} if RANGES_FILE in manifest.files else {}
    if manifest.has_secret_key and not settings.secret_key:
        sources[data / KEY_FILE] = source / KEY_FILE
    if manifest.analytics == "duckdb" and not analytics_copy.is_already_restored(data, source / DUCKDB_FILE):
        sources[data / DUCKDB_FILE] = source / DUCKDB_FILE
    return sources


def _restore_clickhouse(url: str, database_url: str, copy: Path) -> None:
    from copydesk.analytics.stores.clickhouse import ClickHouseStore

    database = Database(database_url)
    store = ClickHouseStore(url, database)
    try:
        store.restore(copy)
        with database.write() as tx:
            tx.execute(UPDATE_SCHEMA_VERSION, {"version": SCHEMA_VERSION})
    finally:
        store.close()
        database.close()


def count_sealed_projects(settings: Settings) -> int:
    """Counts the projects whose secrets the current key cannot decrypt. Does not create a key if there is none."""
    has_key = settings.secret_key or (settings.data.absolute() / KEY_FILE).exists()
    database = Database(settings.resolved_database_url)
    try:
        with database.read() as tx:
            projects = tx.execute(select(secrets.c.project_id).distinct()).scalars().all()
        return sum(not has_key or _is_sealed(SealedSecrets(database, settings), project) for project in projects)
    finally:
        database.close()


def _is_sealed(project_secrets: SealedSecrets, project_id: str) -> bool:
    try:
        project_secrets.all(project_id)
    except CannotUnseal:
        return True
    return False


def _describe_existing(tx: Connection) -> str:
    """Describes what the database holds. Returns "" if an unfinished restore or move filled it, which may be lost."""
    version = read_schema_version(tx)
    if version == UNFINISHED_VERSION:
        return ""
    reject_newer_schema(version)
    return describe_contents(tx)


def _refuse_data_loss(settings: Settings, existing: str, source: Path, manifest: Manifest) -> None:
    data = settings.data.absolute()
    losses = [existing] if existing else []
    if (
        manifest.analytics == "duckdb"
        and not analytics_copy.is_already_restored(data, source / DUCKDB_FILE)
        and (views := analytics_copy.count_views(data))
    ):
        losses.append(f"{pluralize(views, 'view or visit', 'views and visits')}")
    key = data / KEY_FILE
    if manifest.has_secret_key and key.exists() and key.read_bytes() != (source / KEY_FILE).read_bytes():
        losses.append(f"a different key in {KEY_FILE}")
    if losses:
        raise DataWouldBeLost(f"Existing data would be lost: {', '.join(losses)}. Use --replace to overwrite it.")


def _stage_file(cleanup: ExitStack, target: Path, copy: Path) -> Path:
    """Copies a file next to its target, so that moving it into place is a single rename."""
    staged_file = target.with_name(f"{target.name}.restoring")
    cleanup.callback(staged_file.unlink, missing_ok=True)
    shutil.copyfile(copy, staged_file)
    staged_file.chmod(0o600)
    sync_to_disk(staged_file)
    return staged_file
