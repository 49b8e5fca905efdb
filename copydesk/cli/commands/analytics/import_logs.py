"""The command `copydesk analytics import`."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from copydesk.cli.output import JsonOption, ProjectOption, find_terminal, open_configured_desk, print_json, print_table
from copydesk.cli.project_lookup import find_project
from copydesk.core.errors import InvalidRequest, UserFacingError
from copydesk.core.text.plurals import pluralize

if TYPE_CHECKING:
    from copydesk.analytics.log_import.file_check import FileFacts
    from copydesk.analytics.log_import.loader import ImportTotals

LogFormatName = Literal[
    "auto",
    "combined",
    "vhost",
    "common",
    "w3c",
    "cloudfront",
    "alb",
    "s3",
    "envoy",
    "bunny",
    "caddy",
    "traefik",
    "cloudflare",
    "gcp",
    "azure",
    "fastly",
    "vercel",
    "netlify",
    "envoy-json",
    "jsonl",
]
MIN_SUBPROCESS_BYTES = 8_000_000
"""Logs of at least this size are read in a separate process. For smaller logs, starting it is not worth the time."""
PROGRESS_INTERVAL_SECONDS = 10
"""The interval between lines of progress when standard error is not a terminal."""
RESUME_HINT = "Run the same command again to resume. No line is counted twice."


def import_logs(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Access logs, plain or gzip; - for standard input.")
    ],
    project: ProjectOption,
    format: Annotated[
        LogFormatName,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="The format of the logs, such as combined or cloudfront; auto detects it. The docs list all formats.",
        ),
    ] = "auto",
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields",
            metavar="MAP",
            help="For any other format: the fields and their names or columns, as in "
            "time=ts,address=client,agent=ua,method=verb,url=uri,status=code or time=1,address=2,….",
        ),
    ] = None,
    site_host: Annotated[
        list[str] | None,
        typer.Option(
            "--site-host",
            metavar="HOST",
            help="Count only lines for this host, in logs that include the host; can be repeated.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Import files even if most lines do not match, or have no client address or user agent."
        ),
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="First remove what an earlier import counted for the lines of these files."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Parse and classify every line, but store nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Counts the page views in access logs. You can import a file several times: each line counts once."""
    from copydesk.analytics.ingest.site_registry import COMMAND_WAIT_SECONDS
    from copydesk.analytics.log_import.batches import read_batches
    from copydesk.analytics.log_import.file_check import UntrustedLog, check_formats
    from copydesk.analytics.log_import.formats import parse_field_map
    from copydesk.analytics.log_import.line_converter import ImportRequest
    from copydesk.analytics.log_import.loader import (
        ImportTotals,
        store_batches,
        store_trusted_batches,
        withdraw_earlier_import,
    )
    from copydesk.analytics.log_import.log_files import copy_streams, total_bytes
    from copydesk.analytics.log_import.reader_process import read_in_subprocess
    from copydesk.analytics.page_paths import normalize_host
    from copydesk.core.clock import now
    from copydesk.core.runtime import memory

    field_map = parse_field_map(fields) if fields is not None else ()
    if field_map and format != "auto":
        raise InvalidRequest("Use --format or --fields, not both.")
    tally = ImportTotals()
    began = time.monotonic()
    interrupted = False
    with open_configured_desk() as desk, ExitStack() as cleanup:
        loaded_project = find_project(desk, project)
        hosts = frozenset(map(normalize_host, site_host or ()))
        copies = cleanup.enter_context(copy_streams(files)) if replace else {}
        import_job = ImportRequest(
            files,
            desk.sites.for_project(loaded_project),
            now(),
            format,
            hosts,
            desk.settings.trusted_proxies,
            field_map,
            copies,
        )
        check_formats(import_job)
        size = total_bytes(files, copies)
        view_batches = (
            read_in_subprocess(import_job) if size and size >= MIN_SUBPROCESS_BYTES else read_batches(import_job)
        )
        store = None if dry_run else desk.store
        if store:
            desk.sites.apply_ai_classes(loaded_project, store, timeout_seconds=COMMAND_WAIT_SECONDS)

        def withdraw_if_replaced() -> None:
            if store and replace:
                tally.replaced = withdraw_earlier_import(import_job, store)

        memory.tune_garbage_collector()
        try:
            with _show_progress(tally, size) as report_progress:
                if force:
                    withdraw_if_replaced()
                    store_batches(view_batches, store, tally, report_progress)
                else:
                    store_trusted_batches(view_batches, store, tally, report_progress, withdraw_if_replaced)
        except KeyboardInterrupt:
            interrupted = True
        except UntrustedLog:
            raise
        except UserFacingError as error:
            raise UserFacingError(
                f"{error} Counted {pluralize(tally.views, 'view')} before the error. {RESUME_HINT}"
            ) from error
        finally:
            memory.unfreeze()
        if store:
            desk.uncounted.add_all(loaded_project.id, tally.dropped)
    facts = _build_summary(tally, files, time.monotonic() - began, dry_run=dry_run, interrupted=interrupted)
    facts["formats"] = _summarize_formats(tally.files)
    if json:
        print_json(facts)
    else:
        _print_formats(tally.files)
        _print_summary(facts)
    if replace and tally.duplicates:
        typer.echo(
            f"Did not replace {pluralize(tally.duplicates, 'line')}: raw views were deleted, or another file has them "
            "too.",
            err=True,
        )
    if interrupted:
        typer.echo(f"Interrupted. {RESUME_HINT}", err=True)
        raise typer.Exit(130)


def _summarize_formats(file_facts: "list[FileFacts]") -> list[dict[str, Any]]:
    """Returns the formats with their numbers of files, most files first."""
    counts = Counter((facts.format, facts.wrapper) for facts in file_facts)
    return [
        {"format": name, "wrapper": wrapper or None, "files": count} for (name, wrapper), count in counts.most_common()
    ]


def _print_formats(file_facts: "list[FileFacts]") -> None:
    """Prints the format of the files, and the other formats of files that are a mixture, to standard error."""
    for row in _summarize_formats(file_facts):
        wrapper = f" in lines of {row['wrapper']}" if row["wrapper"] else ""
        files = "" if len(file_facts) == 1 else f" ({pluralize(row['files'], 'file')})"
        typer.echo(f"Format: {row['format']}{wrapper}{files}.", err=True)
    for facts in file_facts:
        others = [f"{count:,} {name}" for name, count in facts.line_counts.items() if name != facts.format]
        if others:
            typer.echo(f"{facts.name} also has lines in other formats: {', '.join(others)}.", err=True)


def _build_summary(
    tally: "ImportTotals", files: list[str], seconds: float, *, dry_run: bool, interrupted: bool
) -> dict[str, Any]:
    from copydesk.analytics.page_view import DROP_MESSAGES

    dropped = sorted(tally.dropped.items(), key=lambda item: (-item[1], item[0]))
    return {
        "files": len(files),
        "lines": tally.lines,
        "views": tally.views,
        "missing": tally.missing,
        "duplicates": tally.duplicates,
        "replaced": tally.replaced,
        "dropped": [
            {"reason": reason.value, "lines": count, "first": tally.samples[reason], "message": DROP_MESSAGES[reason]}
            for reason, count in dropped
        ],
        "incomplete": tally.read_errors,
        "dryRun": dry_run,
        "interrupted": interrupted,
        "seconds": round(seconds, 3),
    }


def _print_summary(facts: dict[str, Any]) -> None:
    dropped = sum(reason["lines"] for reason in facts["dropped"])
    outcome = "would be counted" if facts["dryRun"] else "counted"
    typer.echo(
        f"{pluralize(facts['lines'], 'line')}: {pluralize(facts['views'], 'view')} {outcome}, "
        + (f"{pluralize(facts['missing'], 'request')} for missing pages, " if facts["missing"] else "")
        + f"{pluralize(facts['duplicates'], 'duplicate')}, {dropped:,} dropped."
    )
    if facts["replaced"]:
        typer.echo(f"Replaced {pluralize(facts['replaced'], 'view')} of an earlier import.")
    if dropped:
        rows = [(r["reason"], f"{r['lines']:,}", r["first"], r["message"]) for r in facts["dropped"]]
        print_table(("reason", "lines", "first", "meaning"), rows, "")
    for fault in facts["incomplete"]:
        typer.echo(f"Not read completely: {fault}.", err=True)


@contextmanager
def _show_progress(tally: "ImportTotals", size: int | None) -> Iterator[Callable[[], None]]:
    """Shows a progress bar in a terminal, or else prints a line periodically. Both go to standard error."""
    console = find_terminal(stderr=True)
    if console is None:
        yield _print_progress_periodically(tally, size)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=size)
        began = time.monotonic()

        def update() -> None:
            rate = tally.lines / max(time.monotonic() - began, 0.001)
            description = f"{pluralize(tally.lines, 'line')}, {pluralize(tally.views, 'view')}, {rate:,.0f} lines/s"
            bar.update(task, completed=tally.bytes_read, description=description)

        yield update


def _print_progress_periodically(tally: "ImportTotals", size: int | None) -> Callable[[], None]:
    last = time.monotonic()

    def update() -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_INTERVAL_SECONDS:
            last = time.monotonic()
            percentage = f" ({100 * tally.bytes_read // size}%)" if size else ""
            typer.echo(f"{pluralize(tally.lines, 'line')}, {pluralize(tally.views, 'view')}{percentage}", err=True)

    return update
