"""The command `copydesk migrate-stores`."""

from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.output import JsonOption, print_json
from copydesk.cli.progress_bar import show_progress
from copydesk.core.text.plurals import pluralize

if TYPE_CHECKING:
    from copydesk.core.settings import Settings
    from copydesk.transfer.progress import Progress

PASSWORD_HINT = "instead, to hide its password from other users of this machine"  # noqa: S105


app = typer.Typer(rich_markup_mode=None)


@app.command("migrate-stores")
def migrate_stores(
    to_database: Annotated[
        str,
        typer.Option(
            "--to-database",
            metavar="URL",
            envvar="COPYDESK_TO_DATABASE_URL",
            show_envvar=False,
            help=f"The empty database for projects, people and jobs. Set COPYDESK_TO_DATABASE_URL {PASSWORD_HINT}.",
        ),
    ] = "",
    to_analytics: Annotated[
        str,
        typer.Option(
            "--to-analytics",
            metavar="URL",
            envvar="COPYDESK_TO_ANALYTICS_URL",
            show_envvar=False,
            help=f"The empty ClickHouse database for page views. Set COPYDESK_TO_ANALYTICS_URL {PASSWORD_HINT}.",
        ),
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Only check that the migration would work; write nothing.")
    ] = False,
    start_over: Annotated[
        bool, typer.Option("--start-over", help="Discard what an interrupted migration copied to the database.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Moves all data to other stores. Stop the service first. If interrupted, run it again to resume."""
    from copydesk.core.errors import InvalidRequest
    from copydesk.core.settings import read_settings
    from copydesk.transfer.migrate import database as database_migration

    if not to_database and not to_analytics:
        raise InvalidRequest("Set --to-database, --to-analytics, or both.")
    settings = read_settings()
    target = _parse_database_url(to_database) if to_database else settings.resolved_database_url
    _validate_analytics_url(to_analytics)
    rows: dict[str, int] = {}
    with show_progress() as progress_bar:
        if to_database and check:
            rows |= database_migration.check_database(settings.resolved_database_url, target, progress_bar)
        elif to_database:
            rows |= database_migration.move_database(
                settings.resolved_database_url, target, progress_bar, start_over=start_over
            )
        if to_analytics:
            rows |= {
                f"analytics {name}": count
                for name, count in _migrate_views(settings, target, to_analytics, check, progress_bar)
            }
    if json:
        print_json({"moved": not check, "rows": rows})
        return
    summary = f"{pluralize(sum(rows.values()), 'row')} in {pluralize(len(rows), 'table')}"
    if check:
        typer.echo(f"The migration would work: {summary}. Nothing was written.")
        return
    typer.echo(f"Moved {summary}. Counts and checksums match. The old stores are unchanged.")
    new_urls = ("COPYDESK_DATABASE_URL", to_database), ("COPYDESK_ANALYTICS_URL", to_analytics)
    names = " and ".join(name for name, url in new_urls if url)
    typer.echo(f"Now set {names} to the new URL for every process, and start the processes.", err=True)
    if not settings.secret_key and (key := settings.data.absolute() / "secret.key").exists():
        typer.echo(f"Processes on other machines also need COPYDESK_SECRET_KEY, which is in {key}.", err=True)


def _migrate_views(
    settings: "Settings", target: str, url: str, check: bool, progress_bar: "Progress"
) -> "list[tuple[str, int]]":
    from copydesk.core.db.database import Database
    from copydesk.core.db.migrate import migrate
    from copydesk.transfer.migrate.analytics import check_views, move_views

    data = settings.require_data_folder()
    if check:
        return list(check_views(data, url).items())
    database = Database(target)
    try:
        migrate(database)
        return list(move_views(data, url, database, progress_bar).items())
    finally:
        database.close()


def _parse_database_url(url: str) -> str:
    from copydesk.core.errors import InvalidRequest
    from copydesk.core.settings import BadSettings, read_settings

    try:
        return read_settings(database_url=url).resolved_database_url
    except BadSettings:
        raise InvalidRequest("--to-database must begin with sqlite:/// or postgresql://.") from None


def _validate_analytics_url(url: str) -> None:
    from copydesk.core.errors import InvalidRequest

    if not url:
        return
    try:
        from copydesk.analytics.stores.clickhouse.connection.url import parse_clickhouse_url

        parse_clickhouse_url(url)
    except ModuleNotFoundError:
        raise InvalidRequest("ClickHouse needs its client. Install Copydesk with the extra 'clickhouse'.") from None
    except ValueError as error:
        raise InvalidRequest(f"--to-analytics: {error}.") from None
