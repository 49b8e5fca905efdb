"""The commands of `copydesk analytics` that call the API: visitors, views, agents, referrers, sections, page, missing,
stale, timeseries, feedback and searches.

Also registers the other analytics commands, which work on the store itself.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Annotated, Any

import typer

from copydesk.cli.commands.analytics import export, history, import_logs, maintenance, reclassify
from copydesk.cli.day_range import parse_day_bounds
from copydesk.cli.output import JsonOption, ProjectOption, open_client, print_json, print_table
from copydesk.core.text.plurals import pluralize

MAX_ROWS = 250
EMPTY_MESSAGE = "No data for this period."
OTHER_CLIENTS_HINT = (
    "There are views by crawlers, monitors or scripts, which are not counted as visitors. "
    "'copydesk analytics agents' lists them."
)

app = typer.Typer(
    rich_markup_mode=None,
    help="Shows who reads your docs, and imports access logs. Reports come from the API and need COPYDESK_URL "
    "and COPYDESK_API_KEY.",
    no_args_is_help=True,
)

FromOption = Annotated[
    str | None, typer.Option("--from", metavar="DATE", help="The first day, included [default: the earliest].")
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="DATE", help="The last day, included [default: no limit].")
]
AllOption = Annotated[bool, typer.Option("--all", help="Print all rows.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


class Interval(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def _create_report_command(name: str) -> Callable[..., None]:
    def show(
        project: ProjectOption,
        date_from: FromOption = None,
        date_to: ToOption = None,
        limit: Annotated[
            int, typer.Option("--limit", metavar="N", min=1, max=MAX_ROWS, help="The number of rows.")
        ] = 50,
        offset: Annotated[int, typer.Option("--offset", metavar="N", min=0, help="The number of rows to skip.")] = 0,
        all: AllOption = False,
        json: JsonOption = False,
        csv: CsvOption = False,
    ) -> None:
        days = parse_day_bounds(date_from, date_to)
        with open_client(project) as client:
            fetch = partial(getattr(client, name), days.date_from, days.date_to)
            report = _fetch_rows(name, fetch, limit, offset, all)
            is_empty = name == "visitors" and not report[name] and not offset and not json and not csv
            has_other_clients = is_empty and bool(client.agents(days.date_from, days.date_to, limit=1)["agents"])
        _print_report(name, report, json, csv)
        _print_more_hint(report, json, limit, offset)
        if has_other_clients:
            typer.echo(OTHER_CLIENTS_HINT, err=True)

    return show


def _fetch_rows(name: str, fetch: Callable[..., Any], limit: int, offset: int, all: bool) -> dict[str, Any]:
    """Returns one page of a report, or with `all` every row from the offset on."""
    report: dict[str, Any] = fetch(limit=MAX_ROWS if all else limit, offset=offset)
    while all and report["hasMore"]:
        next_page = fetch(limit=MAX_ROWS, offset=offset + len(report[name]))
        report = {**report, name: report[name] + next_page[name], "hasMore": next_page["hasMore"]}
    return report


def _print_more_hint(report: dict[str, Any], json: bool, limit: int, offset: int) -> None:
    if report["hasMore"] and not json:
        typer.echo(f"For more rows, add --offset {offset + limit} or --all", err=True)


for report_name, report_help in {
    "visitors": "Prints unique visitors per page, highest first. Prints the totals to standard error.",
    "views": "Prints views per page, highest first. Prints the totals to standard error.",
    "agents": "Prints visitors and views by agent, of every class.",
    "referrers": "Prints where people came from, most visitors first. Prints the totals by kind to standard error.",
    "missing": "Prints paths that were answered with 404 or 410, most visitors first, and where readers came from.",
}.items():
    app.command(report_name, help=report_help)(_create_report_command(report_name))


@app.command()
def sections(
    project: ProjectOption,
    date_from: FromOption = None,
    date_to: ToOption = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="PATH", help="Only sections below this one, such as /ja.")
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", metavar="N", min=1, max=10, help="The number of path segments of a section."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MAX_ROWS, help="The number of rows.")] = 50,
    offset: Annotated[int, typer.Option("--offset", metavar="N", min=0, help="The number of rows to skip.")] = 0,
    all: AllOption = False,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Prints unique visitors by the beginning of the path, highest first. Prints the totals to standard error."""
    days = parse_day_bounds(date_from, date_to)
    with open_client(project) as client:
        fetch = partial(client.sections, days.date_from, days.date_to, prefix=prefix, depth=depth)
        report = _fetch_rows("sections", fetch, limit, offset, all)
    _print_report("sections", report, json, csv)
    _print_more_hint(report, json, limit, offset)


@app.command()
def stale(
    project: ProjectOption,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MAX_ROWS, help="The number of rows.")] = 50,
    offset: Annotated[int, typer.Option("--offset", metavar="N", min=0, help="The number of rows to skip.")] = 0,
    all: AllOption = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Request a new comparison. It runs in the background.")
    ] = False,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Prints popular pages whose sources changed after the page was last edited, most readers first."""
    with open_client(project) as client:
        if refresh:
            client.refresh_stale()
        report = _fetch_rows("stale", client.stale, limit, offset, all)
    if json or csv:
        _print_report("stale", report, json, csv)
    else:
        rows = [
            (row["path"], row["readers"], row["lastEdit"]["at"][:10], ", ".join(map(_describe_source, row["sources"])))
            for row in report["stale"]
        ]
        print_table(("path", "readers", "last edit", "changed since"), rows, "No stale pages.")
    if not json:
        typer.echo(_describe_comparison(report), err=True)
    _print_more_hint(report, json, limit, offset)


@app.command()
def page(
    path: Annotated[str, typer.Argument(help="The path of the page, such as /guide/start.")],
    project: ProjectOption,
    date_from: FromOption = None,
    date_to: ToOption = None,
    json: JsonOption = False,
) -> None:
    """Prints the agents and referrers of one page. Prints its totals to standard error."""
    days = parse_day_bounds(date_from, date_to)
    with open_client(project) as client:
        report: dict[str, Any] = client.page(path, days.date_from, days.date_to)  # type: ignore[assignment]
    if json:
        print_json(report)
        return
    for name in ("agents", "referrers"):
        _print_report(name, {name: report[name]}, json=False, csv=False)
    counts = ", ".join(f"{label} {number:,}" for label, number in report["totals"].items())
    typer.echo(f"{report['path']}: {counts}", err=True)


@app.command()
def timeseries(
    project: ProjectOption,
    date_from: FromOption = None,
    date_to: ToOption = None,
    interval: Annotated[
        Interval, typer.Option("--interval", metavar="INTERVAL", help="hour (at most 31 days), day, week or month.")
    ] = Interval.DAY,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Prints unique visitors and views of the whole site by hour, day, week or month."""
    days = parse_day_bounds(date_from, date_to)
    with open_client(project) as client:
        report = client.timeseries(days.date_from, days.date_to, interval=interval.value)
    _print_report("timeseries", {**report}, json, csv)


@app.command()
def feedback(
    project: ProjectOption,
    date_from: FromOption = None,
    date_to: ToOption = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The number of rows.")] = 50,
    all: AllOption = False,
    by_page: Annotated[bool, typer.Option("--by-page", help="Print the numbers per page, highest first.")] = False,
    json: JsonOption = False,
) -> None:
    """Prints feedback from readers, newest first."""
    days = parse_day_bounds(date_from, date_to)
    with open_client(project) as client:
        rows = client.rows("feedback/by-page" if by_page else "feedback", days.date_from, days.date_to)
        entries = list(islice(rows, None if all else limit))
    if json:
        print_json(entries)
    elif by_page:
        columns = ("path", "thumbsUp", "thumbsDown", "code", "total")
        print_table(columns, [[row[column] for column in columns] for row in entries], EMPTY_MESSAGE)
    else:
        cells = [
            (
                row["createdAt"],
                row["path"],
                row["source"],
                row["status"],
                _format_rating(row),
                _to_single_line(row["comment"]),
            )
            for row in entries
        ]
        print_table(("time", "path", "source", "status", "helpful", "comment"), cells, EMPTY_MESSAGE)


@app.command()
def searches(
    project: ProjectOption,
    date_from: FromOption = None,
    date_to: ToOption = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The number of rows.")] = 50,
    all: AllOption = False,
    json: JsonOption = False,
) -> None:
    """Prints what readers searched for, most frequent first."""
    days = parse_day_bounds(date_from, date_to)
    with open_client(project) as client:
        rows = list(islice(client.rows("searches", days.date_from, days.date_to), None if all else limit))
    if json:
        print_json(rows)
    else:
        columns = ("searchQuery", "hits", "ctr", "topClickedPage", "lastSearchedAt")
        print_table(columns, [[row[column] for column in columns] for row in rows], EMPTY_MESSAGE)


app.command("import")(import_logs.import_logs)
app.command("export")(export.export)
app.command("import-history")(history.import_history)
app.command("remove-history")(history.remove_history)
maintenance.register_commands(app)
app.command("reclassify")(reclassify.reclassify)


def _print_report(name: str, report: dict[str, Any], json: bool, csv: bool) -> None:
    from copydesk.web.responses.csv_reports import get_columns, render_csv, to_cells

    columns = get_columns(name)
    rows = [to_cells(name, row) for row in report[name]]
    if json:
        print_json(report)
    elif csv:
        typer.echo(render_csv(columns, rows), nl=False)
    else:
        print_table(columns, [[_to_table_cell(cell) for cell in row] for row in rows], EMPTY_MESSAGE)
        if other := report.get("other"):
            typer.echo(f"Other missing paths, counted together: {pluralize(other['requests'], 'request')}", err=True)
        if totals := report.get("totals"):
            counts = ", ".join(f"{label} {number:,}" for label, number in totals.items())
            typer.echo(f"Whole site: {counts}", err=True)


def _describe_source(source: dict[str, Any]) -> str:
    where = str(source["path"]) + (f" in {source['repository']}" if source["repository"] else "")
    return where + (f" ({', '.join(source['names'])})" if source["names"] else "")


def _describe_comparison(report: dict[str, Any]) -> str:
    """Returns how old the result is, and what is wrong with it."""
    parts = [f"Compared {report['comparedAt']}." if report["comparedAt"] else "Not compared yet."]
    if report["status"] == "computing":
        parts.append("A comparison is running. Run the command again in a minute.")
    if report["problem"]:
        parts.append(f"The last comparison failed: {report['problem']}")
    if report["hasSources"] is False:
        parts.append("There is no source code to compare with. Add a context repository: copydesk context add.")
    if report["isComplete"] is False:
        parts.append("The history was too long to read all of it, so older changes may be missing.")
    return " ".join(parts)


def _to_table_cell(cell: Any) -> Any:
    return cell.replace("\n", ", ") if isinstance(cell, str) else cell


def _format_rating(row: dict[str, Any]) -> str | None:
    if not row.get("rated"):
        return None
    return "yes" if row["helpful"] else "no"


def _to_single_line(comment: str | None) -> str | None:
    return None if comment is None else " ".join(comment.split())
