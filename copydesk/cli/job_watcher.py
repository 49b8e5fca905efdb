"""Prints a job's progress: live in a terminal, plain lines when piped."""

import typer

from copydesk.cli.output import find_terminal, make_printable
from copydesk.client import Client, Event, Job
from copydesk_client.event_text import PHASE_LABELS, describe_event

DETAIL_INDENT = " " * 10
"""The width of the time and the space after it."""
KINDS_WITH_DETAILS = ("checked", "reviewers")
"""The events whose further lines list details, which are indented."""


def watch_job(client: Client, job_id: str, quiet: bool = False) -> Job:
    """Prints each event until the job ends. Returns the job in its final state."""
    console = None if quiet else find_terminal()
    if console:
        with console.status("watching …") as status:
            for event in client.watch(job_id):
                if event["kind"] in ("phase", "resumed"):
                    status.update(f"{PHASE_LABELS.get(event['data']['phase'], event['data']['phase'])} …")
                console.print(make_printable(format_event(event)), markup=False, soft_wrap=True)
    else:
        for event in client.watch(job_id):
            if not quiet:
                typer.echo(make_printable(format_event(event)))
    return client.get_job(job_id)


def format_event(event: Event) -> str:
    at = event["data"].get("at", "")[11:19]
    text = describe_event(event)
    return f"{at}  " + (text.replace("\n", f"\n{DETAIL_INDENT}") if event["kind"] in KINDS_WITH_DETAILS else text)
