"""copydesk backup, copydesk restore"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.output import JsonOption, fail, print_json
from copydesk.cli.progress_bar import show_progress

if TYPE_CHECKING:
    from copydesk.core.settings import Settings
    from copydesk.transfer.backup.manifest import Manifest
    from copydesk.transfer.progress import Progress


app = typer.Typer(rich_markup_mode=None)


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder, or with --verify a back-up.")],
    check: Annotated[bool, typer.Option("--verify", help="Only look whether the back-up is sound.")] = False,
    with_secret_key: Annotated[
        bool, typer.Option("--with-secret-key", help="Copy the key that opens sealed secrets too.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Copies everything into a new folder, while everything goes on: the database, the views, the address ranges."""
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
        print_json(manifest.model_dump())
        return
    typer.echo(f"{'Sound' if check else 'Backed up'}: {target}, {_describe_manifest(manifest)}.")
    if not check and with_secret_key:
        typer.echo("It holds the key that opens the sealed secrets in it: keep it as you keep those.", err=True)
    elif not check:
        key_location = "COPYDESK_SECRET_KEY" if settings.secret_key else str(settings.data.absolute() / "secret.key")
        typer.echo(
            f"The key that opens sealed secrets is not in it: keep a copy of {key_location} elsewhere.", err=True
        )


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="A back-up.")],
    replace: Annotated[bool, typer.Option("--replace", help="Give up what is there now.")] = False,
    json: JsonOption = False,
) -> None:
    """Puts a back-up into the stores that the settings name, all of it or nothing. Nothing else may run meanwhile."""
    from copydesk.core.settings import read_settings
    from copydesk.transfer.backup.restore import count_sealed_projects, restore_backup

    settings = read_settings()
    with _explain_disk_errors(settings.data.absolute()), show_progress() as progress_bar:
        manifest = restore_backup(settings, source.absolute(), progress_bar, replace=replace)
    sealed = count_sealed_projects(settings)
    if json:
        print_json({**manifest.model_dump(), "sealed": sealed})
        return
    typer.echo(f"Restored what was there at {manifest.began}: {_describe_manifest(manifest)}.")
    if sealed:
        typer.echo(
            f"The sealed secrets of {sealed:,} projects cannot be opened: give the key they were sealed with in"
            " COPYDESK_SECRET_KEY, or put it back as secret.key, before anything is started.",
            err=True,
        )


def _create_backup(settings: "Settings", target: Path, progress_bar: "Progress", with_secret_key: bool) -> "Manifest":
    from copydesk.analytics.stores.open_store import open_store
    from copydesk.core.db.database import Database
    from copydesk.transfer.backup.create import BackupFailed, create_backup
    from copydesk.transfer.exclusive_access import is_database_missing

    if is_database_missing(settings.resolved_database_url):
        raise BackupFailed("There is nothing to back up: COPYDESK_DATA and COPYDESK_DATABASE_URL say where it is.")
    settings.make_data_folder()
    database = Database(settings.resolved_database_url)
    store = open_store(settings, database)
    try:
        return create_backup(settings, database, store, target, progress_bar, with_secret_key=with_secret_key)
    finally:
        store.close()
        database.close()


def _describe_manifest(manifest: "Manifest") -> str:
    """A copy of ClickHouse does not tell how many views it holds."""
    rows, size = sum(table.rows for table in manifest.tables.values()), sum(f.bytes for f in manifest.files.values())
    views = manifest.analytics_rows.get("views")
    return f"{rows:,} rows, {'' if views is None else f'{views:,} views, '}{size:,} bytes"


@contextmanager
def _explain_disk_errors(path: Path) -> Iterator[None]:
    """A disk that is full or a folder that may not be written to is a sentence."""
    try:
        yield
    except OSError as error:
        fail(f"{error.filename or path}: {error.strerror or error}.")
