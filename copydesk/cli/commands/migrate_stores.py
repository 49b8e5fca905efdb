"""copydesk migrate-stores"""

from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.output import AsJson, print_json
from copydesk.cli.progress_bar import progress

if TYPE_CHECKING:
    from copydesk.core.settings import Settings
    from copydesk.transfer.progress import Progress

UNSEEN = "from the environment, others of this machine do not see its password"


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
            help=f"The empty database that projects, people and jobs go to; {UNSEEN}.",
        ),
    ] = "",
    to_analytics: Annotated[
        str,
        typer.Option(
            "--to-analytics",
            metavar="URL",
            envvar="COPYDESK_TO_ANALYTICS_URL",
            show_envvar=False,
            help=f"The empty ClickHouse database that views go to; {UNSEEN}.",
        ),
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Only look whether it would work; nothing is written.")
    ] = False,
    start_over: Annotated[
        bool, typer.Option("--start-over", help="Give up what an interrupted move has copied to the database.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Moves everything to other stores. Stop the service first; killed, it goes on where it was."""
    from copydesk.core.errors import InvalidRequest
    from copydesk.core.settings import read_settings
    from copydesk.transfer.migrate import database as transfer

    if not to_database and not to_analytics:
        raise InvalidRequest("Say where to: --to-database, --to-analytics, or both.")
    settings = read_settings()
    target = _database_at(to_database) if to_database else settings.database
    _refuse_wrong_analytics(to_analytics)
    rows: dict[str, int] = {}
    with progress() as shown:
        if to_database and check:
            rows |= transfer.check(settings.database, target, shown)
        elif to_database:
            rows |= transfer.move(settings.database, target, shown, start_over=start_over)
        if to_analytics:
            rows |= {f"analytics {name}": count for name, count in _views(settings, target, to_analytics, check, shown)}
    if json:
        print_json({"moved": not check, "rows": rows})
        return
    told = f"{sum(rows.values()):,} rows of {len(rows)} tables"
    if check:
        typer.echo(f"It would work: {told}. Nothing was written.")
        return
    typer.echo(f"Moved {told}, the same on both sides by count and checksum. The old stores are as they were.")
    places = ("COPYDESK_DATABASE_URL", to_database), ("COPYDESK_ANALYTICS_URL", to_analytics)
    names = " and ".join(name for name, given in places if given)
    typer.echo(f"Now set {names} to the new address for every process, and start them.", err=True)
    if not settings.secret_key and (key := settings.data.absolute() / "secret.key").exists():
        typer.echo(f"Processes on other machines need COPYDESK_SECRET_KEY too: it is in {key}.", err=True)


def _views(settings: "Settings", target: str, url: str, check: bool, shown: "Progress") -> "list[tuple[str, int]]":
    from copydesk.core.db.database import Database
    from copydesk.core.db.migrate import migrate
    from copydesk.transfer.migrate.analytics import check_views, move_views

    data = settings.data.absolute()
    if check:
        return list(check_views(data, url).items())
    database = Database(target)
    try:
        migrate(database)
        return list(move_views(data, url, database, shown).items())
    finally:
        database.close()


def _database_at(given: str) -> str:
    from copydesk.core.errors import InvalidRequest
    from copydesk.core.settings import BadSettings, read_settings

    try:
        return read_settings(database_url=given).database
    except BadSettings:
        raise InvalidRequest("--to-database must begin with sqlite:/// or postgresql://.") from None


def _refuse_wrong_analytics(given: str) -> None:
    from copydesk.core.errors import InvalidRequest

    if not given:
        return
    try:
        from copydesk.analytics.stores.clickhouse.connection.url import address_of

        address_of(given)
    except ModuleNotFoundError:
        raise InvalidRequest("ClickHouse needs its client: install Copydesk with its extra 'clickhouse'") from None
    except ValueError as error:
        raise InvalidRequest(f"--to-analytics: {error}.") from None
