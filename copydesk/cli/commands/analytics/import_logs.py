"""copydesk analytics import"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from copydesk.cli.output import AsJson, InProject, find_terminal, print_json, print_table, the_desk
from copydesk.core.errors import Explained

if TYPE_CHECKING:
    from copydesk.analytics.log_import.loader import Tally

Known = Literal["auto", "combined", "vhost", "common", "cloudfront", "caddy", "cloudflare", "jsonl"]
APART_FROM = 8_000_000
"""Bytes from which a process of its own for reading is worth the second that it takes to start."""
TOLD_EVERY = 10
"""Seconds between lines of progress where there is no terminal."""
GO_ON = "Run the same command again to go on: no line is counted twice."


def import_logs(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Access logs, plain or gzip; - for standard input.")
    ],
    project: InProject,
    format: Annotated[
        Known, typer.Option("--format", help="How they are written; auto looks at the first lines.")
    ] = "auto",
    site_host: Annotated[
        list[str] | None,
        typer.Option("--site-host", help="Count only lines of this host, in logs that tell it; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and judge every line, but keep nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Counts the page views of access logs. A line counts once, however often its file is imported."""
    from copydesk.analytics.ingest.site_registry import SETTLED_IN_TIME
    from copydesk.analytics.log_import.batches import batches, check
    from copydesk.analytics.log_import.line_converter import Job
    from copydesk.analytics.log_import.loader import Tally, keep
    from copydesk.analytics.log_import.log_files import size_of
    from copydesk.analytics.log_import.reader_process import batches_apart
    from copydesk.analytics.page_paths import host_name
    from copydesk.core.clock import now
    from copydesk.core.runtime import memory

    tally, began, interrupted = Tally(), time.monotonic(), False
    with the_desk() as desk:
        found = desk.projects.get(project)
        hosts = frozenset(map(host_name, site_host or ()))
        job = Job(files, desk.sites.of(found), now(), format, hosts, desk.settings.trusted_proxies)
        check(job)
        size = size_of(files)
        read = batches_apart(job) if size and size >= APART_FROM else batches(job)
        store = None if dry_run else desk.store
        if store:
            desk.sites.settle(found, store, patience=SETTLED_IN_TIME)
        memory.settle()
        try:
            with _progress(tally, size) as seen:
                keep(read, store, tally, seen)
        except KeyboardInterrupt:
            interrupted = True
        except Explained as stopped:
            raise Explained(f"{stopped} {tally.views:,} views were counted before that. {GO_ON}") from stopped
        finally:
            memory.unfreeze()
    facts = _facts(tally, files, time.monotonic() - began, dry_run=dry_run, interrupted=interrupted)
    if json:
        print_json(facts)
    else:
        _print(facts)
    if interrupted:
        typer.echo(f"Interrupted. {GO_ON}", err=True)
        raise typer.Exit(130)


def _facts(tally: "Tally", files: list[str], seconds: float, *, dry_run: bool, interrupted: bool) -> dict[str, Any]:
    from copydesk.analytics.page_view import SENTENCES

    dropped = sorted(tally.dropped.items(), key=lambda item: (-item[1], item[0]))
    return {
        "files": len(files),
        "lines": tally.lines,
        "views": tally.views,
        "duplicates": tally.duplicates,
        "dropped": [
            {"reason": reason.value, "lines": count, "first": tally.samples[reason], "message": SENTENCES[reason]}
            for reason, count in dropped
        ],
        "incomplete": tally.faults,
        "dryRun": dry_run,
        "interrupted": interrupted,
        "seconds": round(seconds, 3),
    }


def _print(facts: dict[str, Any]) -> None:
    dropped = sum(reason["lines"] for reason in facts["dropped"])
    kept = "would be counted" if facts["dryRun"] else "counted"
    typer.echo(
        f"{facts['lines']:,} lines: {facts['views']:,} views {kept}, {facts['duplicates']:,} known before, "
        f"{dropped:,} dropped."
    )
    if dropped:
        rows = [(r["reason"], f"{r['lines']:,}", r["first"], r["message"]) for r in facts["dropped"]]
        print_table(("reason", "lines", "first", "meaning"), rows, "")
    for fault in facts["incomplete"]:
        typer.echo(f"Not read to its end: {fault}.", err=True)


@contextmanager
def _progress(tally: "Tally", size: int | None) -> Iterator[Callable[[], None]]:
    """A bar in a terminal; elsewhere a line now and then. Both go to standard error."""
    console = find_terminal(stderr=True)
    if console is None:
        yield _told_now_and_then(tally, size)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task, began = bar.add_task("", total=size), time.monotonic()

        def seen() -> None:
            rate = tally.lines / max(time.monotonic() - began, 0.001)
            said = f"{tally.lines:,} lines, {tally.views:,} views, {rate:,.0f} lines/s"
            bar.update(task, completed=tally.read, description=said)

        yield seen


def _told_now_and_then(tally: "Tally", size: int | None) -> Callable[[], None]:
    last = time.monotonic()

    def seen() -> None:
        nonlocal last
        if time.monotonic() - last >= TOLD_EVERY:
            last = time.monotonic()
            part = f" ({100 * tally.read // size}%)" if size else ""
            typer.echo(f"{tally.lines:,} lines, {tally.views:,} views{part}", err=True)

    return seen
