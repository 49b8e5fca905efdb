"""The commands `copydesk webhook add|list|change|test|rotate|remove|deliveries|redeliver`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import (
    JsonOption,
    ProjectOption,
    current_actor,
    open_configured_desk,
    print_facts,
    print_json,
    print_once,
    print_table,
)
from copydesk.cli.project_lookup import find_project
from copydesk.core.clock import format_iso, format_iso_or_none

if TYPE_CHECKING:
    from copydesk.webhooks.delivery_log import Delivery, DeliveryDetails
    from copydesk.webhooks.endpoints import CreatedEndpoint, Endpoint

WebhookArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The webhook's ID (hook_…).")]
DeliveryArgument = Annotated[str, typer.Argument(metavar="DELIVERY", help="The delivery's ID (dlv_…).")]
EventOption = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="EVENT", help="An event to send, such as job.failed; can be repeated."),
]

app = typer.Typer(
    rich_markup_mode=None,
    help="Sends a project's events to other services or to Slack.",
    no_args_is_help=True,
)


@app.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to send events, with https://.")],
    project: ProjectOption,
    payload_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="json, or slack for an incoming webhook of Slack.")
    ] = "json",
    event: EventOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the secret.")] = False,
    json: JsonOption = False,
) -> None:
    """Adds a webhook and shows its signing secret once. Without --event, it gets all events."""
    with open_configured_desk() as desk:
        created = desk.webhooks.endpoints.add(
            find_project(desk, project).id,
            url,
            payload_format=payload_format,
            events=event or (),
            actor=current_actor(),
        )
    _print_secret(created, quiet=quiet, json=json)


@app.command("list")
def list_webhooks(project: ProjectOption, json: JsonOption = False) -> None:
    """Lists a project's webhooks, oldest first."""
    with open_configured_desk() as desk:
        endpoints = desk.webhooks.endpoints.list_for_project(find_project(desk, project).id)
    if json:
        print_json([_endpoint_to_dict(endpoint) for endpoint in endpoints])
        return
    rows = [
        (each.id, each.shown_url, each.format, each.state, format_iso_or_none(each.last_success_at), each.last_error)
        for each in endpoints
    ]
    header = ("webhook", "url", "format", "state", "last delivered", "last error")
    print_table(header, rows, "This project has no webhooks.")


@app.command()
def change(
    webhook: WebhookArgument,
    project: ProjectOption,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="The new URL.")] = None,
    payload_format: Annotated[str | None, typer.Option("--format", metavar="FORMAT", help="json or slack.")] = None,
    event: EventOption = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether events are sent.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Changes a webhook. Options that you leave out stay as they are."""
    with open_configured_desk() as desk:
        endpoint = desk.webhooks.endpoints.change(
            find_project(desk, project).id,
            webhook,
            url=url,
            payload_format=payload_format,
            events=event or None,
            enabled=enabled,
            actor=current_actor(),
        )
    if json:
        print_json(_endpoint_to_dict(endpoint))
    else:
        print_facts(_simplify_facts(_endpoint_to_dict(endpoint)))


@app.command("test")
def send_test(webhook: WebhookArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Sends a test event at once and shows the answer. Fails if it is not delivered."""
    with open_configured_desk() as desk:
        details = desk.webhooks.test_now(find_project(desk, project).id, webhook, actor=current_actor())
    if json:
        print_json(_details_to_dict(details))
    else:
        _print_attempts(details)
    if details.delivery.outcome == "given_up":
        raise typer.Exit(1)


@app.command()
def rotate(
    webhook: WebhookArgument,
    project: ProjectOption,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the secret.")] = False,
    json: JsonOption = False,
) -> None:
    """Creates a new signing secret. For 24 hours, deliveries are signed with both."""
    with open_configured_desk() as desk:
        created = desk.webhooks.endpoints.rotate_secret(find_project(desk, project).id, webhook, actor=current_actor())
    _print_secret(created, quiet=quiet, json=json)


@app.command()
def remove(webhook: WebhookArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Removes a webhook with its log and the deliveries that wait."""
    with open_configured_desk() as desk:
        removed = desk.webhooks.endpoints.remove(find_project(desk, project).id, webhook, actor=current_actor())
    if json:
        print_json(_endpoint_to_dict(removed))
    else:
        typer.echo(f"Removed {removed.id}.")


@app.command()
def deliveries(
    webhook: WebhookArgument,
    project: ProjectOption,
    delivery: Annotated[
        str | None, typer.Option("--delivery", metavar="DELIVERY", help="Show this delivery with each attempt.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many to show.")] = 50,
    json: JsonOption = False,
) -> None:
    """Lists what was sent to a webhook, newest first."""
    with open_configured_desk() as desk:
        project_id = find_project(desk, project).id
        if delivery is not None:
            details = desk.webhooks.log.get(project_id, webhook, delivery)
            if json:
                print_json(_details_to_dict(details))
            else:
                _print_attempts(details)
            return
        page, _ = desk.webhooks.log.list_page(project_id, webhook, limit)
    if json:
        print_json([_delivery_to_dict(each) for each in page])
        return
    rows = [
        (each.id, each.event_type, format_iso(each.created_at), each.state, each.attempts, each.last_status, each.error)
        for each in page
    ]
    header = ("delivery", "event", "created", "state", "attempts", "status", "error")
    print_table(header, rows, "Nothing was sent yet.")


@app.command()
def redeliver(
    webhook: WebhookArgument, delivery: DeliveryArgument, project: ProjectOption, json: JsonOption = False
) -> None:
    """Sends an event again, with the same ID. A worker sends it within seconds."""
    with open_configured_desk() as desk:
        queued = desk.webhooks.log.redeliver(find_project(desk, project).id, webhook, delivery, actor=current_actor())
    if json:
        print_json(_delivery_to_dict(queued))
    else:
        typer.echo(f"Queued {queued.id}.")


def _print_secret(created: "CreatedEndpoint", *, quiet: bool, json: bool) -> None:
    facts = {"secret": created.secret, **_endpoint_to_dict(created.endpoint)}
    print_once("secret", created.secret, facts if json else _simplify_facts(facts), quiet=quiet, json=json)


def _simplify_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Returns the facts for people. The state says whether the webhook is enabled."""
    return {name: value for name, value in facts.items() if name != "enabled"}


def _print_attempts(details: "DeliveryDetails") -> None:
    rows = [
        (format_iso(each.at), each.status, f"{each.duration_ms} ms", each.error, each.excerpt)
        for each in details.attempts
    ]
    typer.echo(f"{details.delivery.id}: {details.delivery.event_type}, {details.delivery.state}")
    print_table(("time", "status", "duration", "error", "answer"), rows, "Not sent yet.")


def _endpoint_to_dict(endpoint: "Endpoint") -> dict[str, Any]:
    return {
        "id": endpoint.id,
        "projectId": endpoint.project_id,
        "url": endpoint.shown_url,
        "format": endpoint.format,
        "events": list(endpoint.events),
        "enabled": endpoint.enabled,
        "state": endpoint.state,
        "createdAt": format_iso(endpoint.created_at),
        "lastSuccessAt": format_iso_or_none(endpoint.last_success_at),
        "failingSince": format_iso_or_none(endpoint.failing_since),
        "lastError": endpoint.last_error,
    }


def _delivery_to_dict(delivery: "Delivery") -> dict[str, Any]:
    return {
        "id": delivery.id,
        "eventId": delivery.event_id,
        "event": delivery.event_type,
        "state": delivery.state,
        "createdAt": format_iso(delivery.created_at),
        "endedAt": format_iso_or_none(delivery.ended_at),
        "nextAttemptAt": format_iso_or_none(delivery.due_at),
        "attempts": delivery.attempts,
        "lastStatus": delivery.last_status,
        "error": delivery.error,
    }


def _details_to_dict(details: "DeliveryDetails") -> dict[str, Any]:
    log = [
        {
            "number": attempt.number,
            "at": format_iso(attempt.at),
            "durationMs": attempt.duration_ms,
            "status": attempt.status,
            "error": attempt.error,
            "response": attempt.excerpt,
        }
        for attempt in details.attempts
    ]
    return {**_delivery_to_dict(details.delivery), "attemptLog": log, "data": details.data}
