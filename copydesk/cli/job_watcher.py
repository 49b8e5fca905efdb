"""Prints a job's progress: live in a terminal, plain lines when piped."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import typer

from copydesk.cli.output import find_terminal, indent_further_lines, make_printable
from copydesk_client import Client, Event, Job
from copydesk_client.event_text import PHASE_LABELS, describe_event

TIME_WIDTH = 10
"""The width of the time and the space after it."""
TEXT_FIELDS = {"thought": "text", "finished": "message"}
"""The fields with the text of the events that may show the job's summary, by the kind of the event."""


class WatchedJob(NamedTuple):
    job: Job
    """The job in its final state."""
    new_summary: str
    """The paragraphs of its summary that no event showed."""
    reason: str | None
    """Why its last run ended this way. One that changed nothing leaves the reason of a job with a pull request."""


def watch_job(client: Client, job_id: str, *, after: int = 0, quiet: bool = False) -> WatchedJob:
    """Prints each event that follows `after`, the number of an event, until the job ends."""
    console = None if quiet else find_terminal()
    shown_texts: list[str] = []
    kept_by: list[str] = []
    events = _collect_texts(client.watch(job_id, after), shown_texts, kept_by)
    if console:
        with console.status("watching …") as status:
            for event in events:
                if event["kind"] in ("phase", "resumed"):
                    status.update(f"{PHASE_LABELS.get(event['data']['phase'], event['data']['phase'])} …")
                console.print(make_printable(format_event(event)), markup=False, soft_wrap=True)
    else:
        for event in events:
            if not quiet:
                typer.echo(make_printable(format_event(event)))
    job = client.get_job(job_id)
    if kept_by:
        return WatchedJob(job, "", kept_by[-1])
    return WatchedJob(job, remove_shown_paragraphs(job["summary"] or "", shown_texts), job["reason"])


def find_event_before_message(client: Client, job_id: str, prompt: str) -> int:
    """Returns the number of the event before this message, so that watching from there shows the message first."""
    messages = [event for event in client.events(job_id) if event["kind"] == "message"]
    matches = [event for event in messages if event["data"]["prompt"] == prompt] or messages
    return matches[-1]["seq"] - 1 if matches else 0


def remove_shown_paragraphs(summary: str, shown_texts: Sequence[str]) -> str:
    """Returns the paragraphs of a summary that are not among the paragraphs of these texts."""
    shown = {paragraph.strip() for text in shown_texts for paragraph in text.split("\n\n")}
    return "\n\n".join(paragraph for paragraph in summary.split("\n\n") if paragraph.strip() not in shown).strip()


def _collect_texts(events: Iterator[Event], texts: list[str], kept_by: list[str]) -> Iterator[Event]:
    """Yields the events, and appends to `texts` what the agent and the last event say.

    `kept_by` holds the reason of the last run afterwards, if it left the job as it was.
    """
    for event in events:
        text = event["data"].get(TEXT_FIELDS.get(event["kind"], ""))
        if text:
            texts.append(text)
        if event["kind"] == "finished":
            kept_by[:] = [run["reason"]] if (run := event["data"].get("run")) else []
        yield event


def format_event(event: Event) -> str:
    at = event["data"].get("at", "")[11:19]
    return f"{at}  {indent_further_lines(describe_event(event), TIME_WIDTH)}"
