"""copydesk analytics rebuild|forget|backup|refresh-ranges, on the data folder, whether or not a server runs"""

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import AsJson, InProject, actor, print_json, print_table, the_desk
from copydesk.core.errors import InvalidRequest

if TYPE_CHECKING:
    from copydesk.analytics.classification.ip_ranges import Listed
    from copydesk.core.projects.projects import Project
    from copydesk.desk import Desk

LARGEST_LIST = 8_000_000
PATIENCE = 30


def add_to(app: typer.Typer) -> None:
    for command in (rebuild, forget, backup):
        app.command()(command)
    app.command("refresh-ranges")(refresh_ranges)


def rebuild() -> None:
    """Makes the index of visitors anew. The numbers stay what they are, unless something had gone wrong."""
    began = time.monotonic()
    with the_desk() as desk:
        desk.store.fold()
        desk.store.rebuild()
    typer.echo(f"Rebuilt in {time.monotonic() - began:.1f} s.")


def forget(
    project: InProject,
    visitor_id: Annotated[
        str | None, typer.Option("--visitor-id", help="Only this visitor, by the id that the site sent.")
    ] = None,
    feedback: Annotated[bool, typer.Option("--feedback", help="Only what readers said.")] = False,
    date_from: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="With --feedback: the first day [default: of all].")
    ] = None,
    date_to: Annotated[
        str | None, typer.Option("--to", metavar="DATE", help="With --feedback: the day after the last.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Deletes all numbers and feedback of a project, its feedback alone, or one visitor's traces, for good."""
    from copydesk.analytics.ingest.site_registry import SETTLED_IN_TIME
    from copydesk.core import audit_log as audit

    if (feedback and visitor_id) or ((date_from or date_to) and not feedback):
        raise InvalidRequest("Give --visitor-id, or --feedback with --from and --to, or none of them.")
    with the_desk() as desk:
        found = desk.projects.get(project)
        what = "the visitor's traces" if visitor_id else "all views, numbers and feedback"
        what = "the feedback of these days" if date_from or date_to else "all feedback" if feedback else what
        if not yes:
            typer.confirm(f"Delete {what} of {found.name} ({found.id}) for good?", abort=True)
        if feedback:
            _forget_feedback(desk, found, date_from, date_to)
            return
        if visitor_id:
            for visitor in _hashes(desk, found, visitor_id):
                desk.store.forget_visitor(found.id, visitor)
        else:
            desk.store.forget(found.id)
            desk.sites.settle(found, desk.store, SETTLED_IN_TIME)  # which classes count as AI was forgotten too
            desk.feedback.forget(found.id)
        with desk.database.write() as tx:
            action = "analytics.visitor_forgotten" if visitor_id else "analytics.forgotten"
            audit.record(tx, found.id, actor(), action, found.id)
    typer.echo(f"Deleted {what}.")


def _forget_feedback(desk: "Desk", project: "Project", date_from: str | None, date_to: str | None) -> None:
    from copydesk.analytics.date_ranges import NotADate, day, days
    from copydesk.core import audit_log as audit

    try:
        chosen = days(day(date_from) if date_from else None, day(date_to) if date_to else None)
    except NotADate as error:
        raise InvalidRequest(f"--from and --to: {error}.") from None
    deleted = desk.feedback.forget(project.id, chosen)
    with desk.database.write() as tx:
        audit.record(tx, project.id, actor(), "analytics.feedback_forgotten", project.id, entries=deleted)
    typer.echo(f"Deleted {deleted} entries of feedback.")


def _hashes(desk: "Desk", project: "Project", visitor_id: str) -> set[int]:
    """What may stand for a visitor in the store: a project's key may have lasted once and be renewed now."""
    from copydesk.analytics.ingest.visitor_ids import Key, Rotation
    from copydesk.core.clock import DAY

    desk.store.fold()
    days = [moment.day for moment in desk.store.timeseries(project.id, "day")]
    secret = bytes.fromhex(desk.secrets.made(project.id, "visitor_key"))
    keys = [Key(project.id, secret, rotation) for rotation in Rotation]
    found = {key.visitor(day * DAY, visitor_id, None, None) for key in keys for day in days}
    return {visitor for visitor in found if visitor is not None}


def backup(target: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")]) -> None:
    """Copies the views and numbers of all projects into a file, while everything goes on.

    The copy is a store itself: put it in the place of the old one to restore it.
    """
    if target.exists():
        raise InvalidRequest(f"{target} exists; name a new file.")
    with the_desk() as desk:
        desk.store.back_up(target.absolute())
    typer.echo(f"Copied to {target}, {target.stat().st_size:,} bytes.")


def refresh_ranges(json: AsJson = False) -> None:
    """Fetches the address ranges that operators of agents publish. A list that cannot be had stays as it was."""
    from copydesk.analytics.classification import ip_ranges as ranges
    from copydesk.analytics.ingest.site_registry import ranges_file
    from copydesk.core.settings import read_settings

    settings = read_settings()
    settings.make_data_folder()
    file = ranges_file(settings.data)
    outcomes = [(listed, None) if listed.page else _refreshed(listed) for listed in ranges.current(file)]
    written = file.with_suffix(".new")
    written.write_text(ranges.written(listed for listed, _ in outcomes), "utf-8")
    os.replace(written, file)
    if json:
        print_json([_facts(listed, fault) for listed, fault in outcomes])
    else:
        rows = [(listed.name, len(listed.prefixes), listed.fetched, fault) for listed, fault in outcomes]
        print_table(("list", "ranges", "fetched", "fault"), rows, "There are no lists.")
    if any(fault for _, fault in outcomes):
        raise typer.Exit(1)


def _refreshed(listed: "Listed") -> "tuple[Listed, str | None]":
    """The list as it is published now; or as it was, and why."""
    import httpx2 as httpx

    from copydesk.analytics.classification.ip_ranges import NotAList, refreshed

    body = bytearray()
    try:
        with httpx.stream("GET", listed.source, timeout=PATIENCE, follow_redirects=True) as response:
            if response.status_code != 200:
                return listed, f"{listed.source} answered {response.status_code}."
            for piece in response.iter_bytes():
                body += piece
                if len(body) > LARGEST_LIST:
                    return listed, f"{listed.source} is too large."
        return refreshed(listed, bytes(body), datetime.now(UTC).date().isoformat()), None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return listed, f"{listed.source} cannot be reached: {error}"
    except NotAList as error:
        return listed, f"{listed.source}: {error}"


def _facts(listed: "Listed", fault: str | None) -> dict[str, Any]:
    return {
        "name": listed.name,
        "source": listed.source,
        "ranges": len(listed.prefixes),
        "fetched": listed.fetched,
        "fault": fault,
    }
