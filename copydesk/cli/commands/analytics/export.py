"""The command `copydesk analytics export`, which works directly on the stores, whether or not a server runs."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.day_range import parse_day_bounds
from copydesk.cli.output import JsonOption, ProjectOption, camelize_names, open_configured_desk, print_json
from copydesk.cli.progress_bar import show_progress
from copydesk.cli.project_lookup import find_project
from copydesk.core.errors import InvalidRequest
from copydesk.core.text.plurals import pluralize

if TYPE_CHECKING:
    from copydesk.analytics.stores.export_format import ExportFormat
    from copydesk.transfer.export.run import ExportResult

MAX_NAMED_FILES = 3


def export(
    output: Annotated[
        Path,
        typer.Option("--output", metavar="FOLDER", help="A new or empty folder, or one with an earlier export."),
    ],
    project: ProjectOption,
    what: Annotated[
        str,
        typer.Option(
            "--what",
            metavar="LIST",
            help="What to export, separated by commas: raw (single views), visitors, views, agents, referrers, "
            "sections, timeseries, missing; or all.",
        ),
    ] = "raw",
    file_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="parquet, csv or jsonl (JSON lines).")
    ] = "parquet",
    date_from: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="The first day, included [default: the earliest].")
    ] = None,
    date_to: Annotated[
        str | None, typer.Option("--to", metavar="DATE", help="The last day, included [default: the latest].")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Exports raw views and reports into files, one for each day.

    Run it again with the same folder to continue an export that was interrupted, to add new days, and to replace the
    files of days that have changed since. manifest.jsonl in the folder lists the finished files with their rows and
    checksums.
    """
    from copydesk.analytics.date_ranges import clamp_day_range
    from copydesk.transfer.export.run import ExportRequest, export_project

    bounds = parse_day_bounds(date_from, date_to)
    days = clamp_day_range(bounds.first, bounds.end)
    datasets, chosen_format = _parse_datasets(what), _parse_format(file_format)
    with open_configured_desk() as desk, show_progress() as progress:
        request = ExportRequest(find_project(desk, project).id, datasets, chosen_format, days)
        result = export_project(desk.store, request, output.absolute(), progress)
    if json:
        facts = asdict(result)
        facts["written"] = [camelize_names(entry) for entry in facts["written"]]
        print_json({"project": request.project_id, "folder": str(output.absolute()), **facts})
    else:
        _print_result(result, output)


def _parse_datasets(names: str) -> list[str]:
    from copydesk.analytics.stores.export_format import EXPORT_COLUMNS

    if names == "all":
        return list(EXPORT_COLUMNS)
    datasets = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in datasets if name not in EXPORT_COLUMNS]
    if unknown or not datasets:
        raise InvalidRequest(f"--what must name some of {', '.join(EXPORT_COLUMNS)}, or be all, not '{names[:80]}'.")
    return datasets


def _parse_format(name: str) -> "ExportFormat":
    from copydesk.analytics.stores.export_format import ExportFormat

    try:
        return ExportFormat(name)
    except ValueError:
        raise InvalidRequest(f"--format must be {', '.join(ExportFormat)}, not '{name[:80]}'.") from None


def _print_result(result: "ExportResult", folder: Path) -> None:
    row_count = sum(entry.rows for entry in result.written)
    typer.echo(
        f"Wrote {pluralize(len(result.written), 'file')} with {pluralize(row_count, 'row')} to {folder}; "
        f"{result.unchanged:,} {'is' if result.unchanged == 1 else 'are'} up to date."
    )
    if result.kept:
        typer.echo(
            f"Kept {_name_files(result.kept)}: the server has deleted raw views of these days since their export.",
            err=True,
        )
    if result.orphaned:
        typer.echo(
            f"The server no longer has any data for {_name_files(result.orphaned)}. "
            "If the data was deleted on purpose, delete these files too.",
            err=True,
        )


def _name_files(names: list[str]) -> str:
    listed = ", ".join(names[:MAX_NAMED_FILES])
    return f"{listed} and {len(names) - MAX_NAMED_FILES} more" if len(names) > MAX_NAMED_FILES else listed
