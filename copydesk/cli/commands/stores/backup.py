"""The commands `copydesk backup` and `copydesk restore`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.output import JsonOption, camelize_names, fail, print_json
from copydesk.cli.progress_bar import show_progress
from copydesk.core.text.plurals import pluralize

if TYPE_CHECKING:
    from copydesk.core.settings import Settings
    from copydesk.transfer.backup.manifest import Manifest
    from copydesk.transfer.progress import Progress


app = typer.Typer(rich_markup_mode=None)


@app.command()
def backup(
    target: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new folder, or an existing backup with --verify.")
    ],
    check: Annotated[bool, typer.Option("--verify", help="Only check that the backup is valid.")] = False,
    with_secret_key: Annotated[
        bool, typer.Option("--with-secret-key", help="Also copy the key that decrypts the stored secrets.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Copies all data into a new folder.

    Copies the database, the page views and the IP address ranges, while the service keeps running.
    """
    from copydesk.core.settings import read_settings
    from copydesk.transfer.backup.verify import verify_backup

    target = target.absolute()
    with _explain_disk_errors(target), show_progress() as progress_bar:
        settings = read_settings()
        manifest = (
            verify_backup(target, progress_bar)
            if check
            else _create_backup(settings, target, progress_bar, with_secret_key)
        )
    if json:
        print_json(camelize_names(manifest.model_dump()))
        return
    typer.echo(f"{'Backup is valid' if check else 'Backup created'}: {target}, {_describe_manifest(manifest)}.")
    if not check and with_secret_key:
        typer.echo(
            "The backup contains its secrets and the key that decrypts them. Store it in a safe place.", err=True
        )
    elif not check:
        key_location = "COPYDESK_SECRET_KEY" if settings.secret_key else str(settings.data.absolute() / "secret.key")
        typer.echo(
            f"The backup does not contain the key that decrypts its secrets. Store a copy of {key_location} elsewhere.",
            err=True,
        )


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="A backup.")],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite existing data.")] = False,
    json: JsonOption = False,
) -> None:
    """Restores a backup, completely or not at all.

    Restores into the stores that the settings name. Stop everything else first.
    """
    from copydesk.core.settings import read_settings
    from copydesk.transfer.backup.restore import count_sealed_projects, restore_backup

    settings = read_settings()
    with _explain_disk_errors(settings.data.absolute()), show_progress() as progress_bar:
        manifest = restore_backup(settings, source.absolute(), progress_bar, replace=replace)
    sealed = count_sealed_projects(settings)
    if json:
        print_json({**camelize_names(manifest.model_dump()), "sealed": sealed})
        return
    typer.echo(f"Restored the backup of {manifest.began}: {_describe_manifest(manifest)}.")
    if sealed:
        typer.echo(
            f"The secrets of {pluralize(sealed, 'project')} cannot be decrypted. Before you start the service, set"
            " COPYDESK_SECRET_KEY to the key that encrypted them, or restore the file secret.key.",
            err=True,
        )


def _create_backup(settings: "Settings", target: Path, progress_bar: "Progress", with_secret_key: bool) -> "Manifest":
    from copydesk.analytics.stores.open_store import open_store
    from copydesk.core.db.database import Database
    from copydesk.transfer.backup.create import BackupFailed, create_backup
    from copydesk.transfer.exclusive_access import is_database_missing

    if is_database_missing(settings.resolved_database_url):
        raise BackupFailed(
            f"There is no database to back up in {settings.database_location}. "
            "Check COPYDESK_DATA and COPYDESK_DATABASE_URL."
        )
    database = Database(settings.resolved_database_url)
    store = open_store(settings, database)
    try:
        return create_backup(settings, database, store, target, progress_bar, with_secret_key=with_secret_key)
    finally:
        store.close()
        database.close()


def _describe_manifest(manifest: "Manifest") -> str:
    """Returns the numbers of rows, views and bytes. A ClickHouse backup does not say how many views it has."""
    rows, size = sum(table.rows for table in manifest.tables.values()), sum(f.bytes for f in manifest.files.values())
    views = manifest.analytics_rows.get("views")
    counts = [(rows, "row"), (views, "view"), (size, "byte")]
    return ", ".join(pluralize(count, noun) for count, noun in counts if count is not None)


@contextmanager
def _explain_disk_errors(path: Path) -> Iterator[None]:
    """Prints a full disk or a missing permission as one sentence, without a traceback."""
    try:
        yield
    except OSError as error:
        fail(f"{error.filename or path}: {error.strerror or error}.")
