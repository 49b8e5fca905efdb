"""The commands `copydesk analytics import-history` and `remove-history`, which work directly on the database."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.day_range import parse_day_bounds
from copydesk.cli.output import JsonOption, ProjectOption, current_actor, open_configured_desk, print_json
from copydesk.cli.project_lookup import find_project
from copydesk.core.errors import InvalidRequest
from copydesk.core.text.plurals import pluralize

if TYPE_CHECKING:
    from copydesk.analytics.history import HistorySource


def import_history(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="The zip archive or the CSV files that the other tool exports."),
    ],
    project: ProjectOption,
    website: Annotated[
        str | None,
        typer.Option("--website", metavar="ID", help="The website to import, if files of Umami have several."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Imports the history that Plausible or Umami has counted, as daily totals.

    They are shown separately and never added to Copydesk's own numbers. Importing the same file again changes nothing;
    a file with other numbers replaces the days that it contains. If a line cannot be read, nothing is imported.
    """
    from copydesk.analytics.date_ranges import format_day
    from copydesk.core import audit_log
    from copydesk.transfer.history.history_files import HistoryReader

    with open_configured_desk() as desk:
        loaded_project = find_project(desk, project)
        reader = HistoryReader(website=website)
        history = reader.read_files(files)
        desk.history.replace(loaded_project.id, history)
        with desk.database.write() as tx:
            audit_log.record(
                tx, loaded_project.id, current_actor(), "analytics.history_imported", loaded_project.id,
                source=history.source, days=len(history.days),
            )  # fmt: skip
    days = sorted({*history.days, *(day for day, _ in history.pages)})
    page_views = sum(counts.pageviews for counts in history.days.values())
    facts = {
        "source": history.source,
        "from": format_day(days[0]),
        "to": format_day(days[-1]),
        "days": len(history.days),
        "pageviews": page_views,
        "pageRows": len(history.pages),
        "duplicates": reader.duplicate_count,
        "skipped": reader.skipped,
    }
    if json:
        print_json(facts)
        return
    typer.echo(
        f"Imported {pluralize(len(history.days), 'day')} of {history.source}, from {facts['from']} to {facts['to']}, "
        f"with {pluralize(page_views, 'page view')} and {pluralize(len(history.pages), 'row')} of pages."
    )
    if reader.duplicate_count:
        ignored = pluralize(reader.duplicate_count, "row was", "rows were")
        typer.echo(f"Several rows have the same event. Each event was counted once; {ignored} ignored.", err=True)
    if reader.skipped:
        typer.echo(f"Not needed: {', '.join(reader.skipped)}.", err=True)


def remove_history(
    project: ProjectOption,
    source: Annotated[
        str | None, typer.Option("--source", metavar="TOOL", help="plausible or umami [default: all].")
    ] = None,
    date_from: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="The first day, included [default: the earliest].")
    ] = None,
    date_to: Annotated[
        str | None, typer.Option("--to", metavar="DATE", help="The last day, included [default: no limit].")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Removes imported history. Copydesk's own numbers stay."""
    from copydesk.analytics.date_ranges import clamp_day_range
    from copydesk.core import audit_log

    bounds = parse_day_bounds(date_from, date_to)
    chosen_source = None if source is None else _parse_source(source)
    with open_configured_desk() as desk:
        loaded_project = find_project(desk, project)
        if not yes:
            typer.confirm(f"Permanently remove imported history of {loaded_project.name}?", abort=True, err=True)
        removed = desk.history.remove(loaded_project.id, chosen_source, clamp_day_range(bounds.first, bounds.end))
        with desk.database.write() as tx:
            audit_log.record(
                tx, loaded_project.id, current_actor(), "analytics.history_removed", loaded_project.id, days=removed
            )
    if json:
        print_json({"days": removed})
    else:
        typer.echo(f"Removed {pluralize(removed, 'day')}.")


def _parse_source(name: str) -> "HistorySource":
    from copydesk.analytics.history import HistorySource

    try:
        return HistorySource(name)
    except ValueError:
        raise InvalidRequest(f"--source must be {' or '.join(HistorySource)}, not '{name[:80]}'.") from None
