"""The commands `copydesk analytics rebuild|delete|backup|refresh-ranges`.

They work directly on the data folder, whether or not a server runs.
"""

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.day_range import DayBounds, parse_day_bounds
from copydesk.cli.output import JsonOption, ProjectOption, current_actor, open_configured_desk, print_json, print_table
from copydesk.cli.project_lookup import find_project
from copydesk.core.errors import InvalidRequest
from copydesk.core.text.plurals import pluralize

if TYPE_CHECKING:
    from copydesk.analytics.classification.ip_ranges import RangeList
    from copydesk.core.projects.projects import Project
    from copydesk.desk import Desk

MAX_LIST_BYTES = 8_000_000
FETCH_TIMEOUT_SECONDS = 30


def register_commands(app: typer.Typer) -> None:
    for command in (rebuild, delete, backup):
        app.command()(command)
    app.command("refresh-ranges")(refresh_ranges)


def rebuild() -> None:
    """Rebuilds the visitor index. The numbers stay the same, unless the index was damaged."""
    began = time.monotonic()
    with open_configured_desk() as desk:
        desk.store.fold()
        desk.store.rebuild_index()
    typer.echo(f"Rebuilt in {time.monotonic() - began:.1f} s.")


def delete(
    project: ProjectOption,
    visitor_id: Annotated[
        str | None,
        typer.Option("--visitor-id", metavar="ID", help="Delete only this visitor, by the ID that the site sent."),
    ] = None,
    feedback: Annotated[bool, typer.Option("--feedback", help="Delete only feedback from readers.")] = False,
    date_from: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DATE", help="With --feedback: the first day, included [default: the earliest]."
        ),
    ] = None,
    date_to: Annotated[
        str | None,
        typer.Option("--to", metavar="DATE", help="With --feedback: the last day, included [default: no limit]."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
) -> None:
    """Deletes a project's analytics, only its feedback, or one visitor's data, permanently."""
    from copydesk.analytics.ingest.site_registry import COMMAND_WAIT_SECONDS
    from copydesk.core import audit_log

    if (feedback and visitor_id) or ((date_from or date_to) and not feedback):
        raise InvalidRequest("Use --visitor-id, or --feedback with --from and --to, or none of them.")
    days = parse_day_bounds(date_from, date_to)
    with open_configured_desk() as desk:
        loaded_project = find_project(desk, project)
        subject = "the visitor's data" if visitor_id else "all views, numbers, feedback, searches and questions"
        subject = "the feedback of these days" if date_from or date_to else "all feedback" if feedback else subject
        if not yes:
            typer.confirm(f"Permanently delete {subject} of {loaded_project.name} ({loaded_project.id})?", abort=True)
        if feedback:
            _forget_feedback(desk, loaded_project, days)
            return
        if visitor_id:
            visitors = _find_visitor_hashes(desk, loaded_project, visitor_id)
            for visitor in visitors:
                desk.store.forget_visitor(loaded_project.id, visitor)
            for interactions in (desk.feedback, desk.searches, desk.conversations):
                interactions.delete_visitors(loaded_project.id, visitors)
        else:
            desk.store.forget_project(loaded_project.id)
            desk.sites.apply_ai_classes(
                loaded_project, desk.store, COMMAND_WAIT_SECONDS
            )  # forget_project also deleted which classes count as AI
            desk.delete_interactions(loaded_project.id)
            desk.history.remove(loaded_project.id)
        with desk.database.write() as tx:
            action = "analytics.visitor_forgotten" if visitor_id else "analytics.forgotten"
            audit_log.record(tx, loaded_project.id, current_actor(), action, loaded_project.id)
    typer.echo(f"Deleted {subject}.")


def _forget_feedback(desk: "Desk", project: "Project", days: DayBounds) -> None:
    from copydesk.analytics.date_ranges import TimeRange, clamp_day_range
    from copydesk.core import audit_log

    times = TimeRange.from_days(clamp_day_range(days.first, days.end))
    deleted = desk.feedback.delete_entries(project.id, times)
    with desk.database.write() as tx:
        audit_log.record(tx, project.id, current_actor(), "analytics.feedback_forgotten", project.id, entries=deleted)
    typer.echo(f"Deleted {pluralize(deleted, 'feedback entry', 'feedback entries')}.")


def _find_visitor_hashes(desk: "Desk", project: "Project", visitor_id: str) -> set[int]:
    """Returns every hash that the store may have for this visitor.

    Tries every rotation of the visitor key, because the project may have used another one before.
    """
    from copydesk.analytics.ingest.visitor_ids import Rotation, VisitorHasher
    from copydesk.core.clock import DAY

    desk.store.fold()
    days = {point.day for point in desk.store.load_timeseries(project.id, "day")}
    for interactions in (desk.feedback, desk.searches, desk.conversations):
        days |= interactions.list_days(project.id)
    secret = bytes.fromhex(desk.secrets.get_or_create(project.id, "visitor_key"))
    hashers = [VisitorHasher(project.id, secret, rotation) for rotation in Rotation]
    hashes = {hasher.hash_visitor(day * DAY, visitor_id, None, None) for hasher in hashers for day in days}
    return {visitor for visitor in hashes if visitor is not None}


def backup(target: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")]) -> None:
    """Copies the views and numbers of all projects into a new file, while the service keeps running.

    The copy is a complete store. To restore it, replace the old store with it.
    """
    if target.exists():
        raise InvalidRequest(f"{target} already exists. Choose a new file.")
    with open_configured_desk() as desk:
        desk.store.back_up(target.absolute())
    typer.echo(f"Copied to {target}, {target.stat().st_size:,} bytes.")


def refresh_ranges(json: JsonOption = False) -> None:
    """Downloads the IP address ranges that operators of AI agents publish. Keeps the old list if a download fails."""
    from copydesk.analytics.classification import ip_ranges
    from copydesk.analytics.ingest.site_registry import ranges_file
    from copydesk.core.settings import read_settings

    file = ranges_file(read_settings().require_data_folder())
    outcomes = [(listed, None) if listed.page else _fetch_list(listed) for listed in ip_ranges.load_current_lists(file)]
    new_file = file.with_suffix(".new")
    new_file.write_text(ip_ranges.format_range_lists(listed for listed, _ in outcomes), "utf-8")
    os.replace(new_file, file)
    if json:
        print_json([_list_to_dict(listed, fault) for listed, fault in outcomes])
    else:
        rows = [(listed.name, len(listed.prefixes), listed.fetched, fault) for listed, fault in outcomes]
        print_table(("list", "ranges", "fetched", "error"), rows, "There are no lists.")
    if any(fault for _, fault in outcomes):
        raise typer.Exit(1)


def _fetch_list(ip_list: "RangeList") -> "tuple[RangeList, str | None]":
    """Returns the list as it is published now, or the old list and an error message."""
    import httpx2 as httpx

    from copydesk.analytics.classification.ip_ranges import InvalidRangeList, refresh_list

    body = bytearray()
    try:
        with httpx.stream("GET", ip_list.source, timeout=FETCH_TIMEOUT_SECONDS, follow_redirects=True) as response:
            if response.status_code != 200:
                return ip_list, f"{ip_list.source} returned status {response.status_code}."
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_LIST_BYTES:
                    return ip_list, f"{ip_list.source} is too large."
        return refresh_list(ip_list, bytes(body), datetime.now(UTC).date().isoformat()), None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return ip_list, f"{ip_list.source} cannot be reached: {error}"
    except InvalidRangeList as error:
        return ip_list, f"{ip_list.source}: {error}"


def _list_to_dict(ip_list: "RangeList", fault: str | None) -> dict[str, Any]:
    return {
        "name": ip_list.name,
        "source": ip_list.source,
        "ranges": len(ip_list.prefixes),
        "fetched": ip_list.fetched,
        "fault": fault,
    }
