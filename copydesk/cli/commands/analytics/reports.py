"""copydesk analytics visitors|views|agents|timeseries|feedback, beside what is done to the store itself"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Annotated, Any

import typer

from copydesk.cli.commands.analytics import import_logs as imports
from copydesk.cli.commands.analytics import maintenance as upkeep
from copydesk.cli.output import AsJson, open_client, print_json, print_table

MOST_ROWS, MOST_REMARKS = 250, 100
NOTHING = "There is nothing in this time."

app = typer.Typer(
    rich_markup_mode=None,
    help="Who reads the pages, over the API: reads COPYDESK_URL, COPYDESK_API_KEY and COPYDESK_PROJECT.",
    no_args_is_help=True,
)

From = Annotated[str | None, typer.Option("--from", metavar="DATE", help="The first day [default: of all].")]
To = Annotated[str | None, typer.Option("--to", metavar="DATE", help="The day after the last [default: of all].")]
All = Annotated[bool, typer.Option("--all", help="All rows, however many there are.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


class Interval(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def _paged(name: str) -> Callable[..., None]:
    def show(
        date_from: From = None,
        date_to: To = None,
        limit: Annotated[int, typer.Option("--limit", min=1, max=MOST_ROWS, help="How many rows.")] = 50,
        offset: Annotated[int, typer.Option("--offset", min=0, help="How many rows to leave out first.")] = 0,
        all: All = False,
        json: AsJson = False,
        csv: AsCsv = False,
    ) -> None:
        with open_client() as client:
            ask = partial(getattr(client, name), date_from, date_to)
            found: dict[str, Any] = ask(limit=MOST_ROWS if all else limit, offset=offset)
            while all and found["hasMore"]:
                more = ask(limit=MOST_ROWS, offset=offset + len(found[name]))
                found = {**found, name: found[name] + more[name], "hasMore": more["hasMore"]}
        _print(name, found, json, csv)
        if found["hasMore"] and not json:
            typer.echo(f"More with --offset {offset + limit}, or --all", err=True)

    return show


for name, what in {
    "visitors": "Unique visitors by page, most first; those of the whole site on standard error.",
    "views": "Views by page, most first; those of the whole site on standard error.",
    "agents": "Every agent that came, of every class: what the split into human and AI rests on.",
}.items():
    app.command(name, help=what)(_paged(name))


@app.command()
def timeseries(
    date_from: From = None,
    date_to: To = None,
    interval: Annotated[Interval, typer.Option("--interval", help="day, week or month.")] = Interval.DAY,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Unique visitors and views of the whole site, by day, week or month."""
    with open_client() as client:
        found = client.timeseries(date_from, date_to, interval=interval.value)
    _print("timeseries", {**found}, json, csv)


@app.command()
def feedback(
    date_from: From = None,
    date_to: To = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many rows.")] = 50,
    all: All = False,
    by_page: Annotated[bool, typer.Option("--by-page", help="Added up by page, most first.")] = False,
    json: AsJson = False,
) -> None:
    """What readers said of the pages, newest first."""
    with open_client() as client:
        rows = client.rows("feedback/by-page" if by_page else "feedback", date_from, date_to)
        found = list(islice(rows, None if all else limit))
    if json:
        print_json(found)
    elif by_page:
        columns = ("path", "helpful", "unhelpful", "comments", "total")
        print_table(columns, [[row[column] for column in columns] for row in found], NOTHING)
    else:
        words = {True: "yes", False: "no", None: None}
        cells = [(row["createdAt"], row["path"], words[row["helpful"]], _line(row["comment"])) for row in found]
        print_table(("at", "path", "helpful", "comment"), cells, NOTHING)


app.command("import")(imports.import_logs)
upkeep.add_to(app)


def _print(name: str, found: dict[str, Any], json: bool, csv: bool) -> None:
    from copydesk.web.responses.csv_reports import COLUMNS, flat, sheet

    rows = [flat(row) for row in found[name]]
    if json:
        print_json(found)
    elif csv:
        typer.echo(sheet(COLUMNS[name], rows), nl=False)
    else:
        print_table(COLUMNS[name], rows, NOTHING)
        if totals := found.get("totals"):
            shares = ", ".join(f"{word} {number:,}" for word, number in totals.items())
            typer.echo(f"The whole site: {shares}", err=True)


def _line(comment: str | None) -> str | None:
    return None if comment is None else " ".join(comment.split())
