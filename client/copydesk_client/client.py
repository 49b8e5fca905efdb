"""Every call of the API, and what is made of several: watching a job, reading all pages of a report."""

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import islice
from types import TracebackType
from typing import Any, Literal, Self, cast

import httpx2 as httpx

from copydesk_client import shapes
from copydesk_client.connection import RETRIED, ApiError, Connection, Unreachable, checked

PATIENCE = 15
AT_ONCE = 1_000
"""Events in one request."""
Day = str | date | None
"""A day as text or a date; a moment stands for the day it falls in."""
Interval = Literal["day", "week", "month"]
Report = Literal["visitors", "views", "agents", "feedback", "feedback/by-page"]


class Client:
    """One project, opened by one of its keys. What it does not get from its arguments it takes from the environment."""

    def __init__(
        self, url: str | None = None, key: str | None = None, project: str | None = None, *, timeout: float = 30
    ) -> None:
        self._connection = Connection(url, key, project, timeout)
        self.url, self.project = self._connection.url, self._connection.project
        self._jobs, self._analytics = f"/v2/agent/{self.project}", f"/v1/analytics/{self.project}"

    def create_job(self, prompt: str, *, idempotency_key: str | None = None, **options: Any) -> shapes.Job:
        """Options: model, ref, draft, title. Sent once, however often the connection breaks on the way."""
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        body = {"prompt": prompt, **options}
        made = self._connection.send("POST", f"{self._jobs}/job", body=body, headers=headers, repeatable=True)
        return cast(shapes.Job, made.json())

    def get_job(self, job_id: str) -> shapes.Job:
        return cast(shapes.Job, self._get(f"{self._jobs}/job/{job_id}"))

    def list_jobs(self, *, status: str | None = None, limit: int = 20, cursor: str | None = None) -> shapes.JobPage:
        return cast(shapes.JobPage, self._get(f"{self._jobs}/jobs", status=status, limit=limit, cursor=cursor))

    def message_job(self, job_id: str, prompt: str) -> shapes.Job:
        return self._change(job_id, "message", {"prompt": prompt})

    def cancel_job(self, job_id: str) -> shapes.Job:
        return self._change(job_id, "cancel")

    def archive_job(self, job_id: str) -> shapes.Job:
        return self._change(job_id, "archive")

    def unarchive_job(self, job_id: str) -> shapes.Job:
        return self._change(job_id, "unarchive")

    def diff(self, job_id: str) -> bytes:
        return self._connection.send("GET", f"{self._jobs}/job/{job_id}/diff").content

    def models(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._get(f"{self._jobs}/models"))

    def events(self, job_id: str, after: int = 0) -> list[shapes.Event]:
        """The events so far."""
        headers = {"Accept": "application/json", "Last-Event-ID": str(after)}
        so_far = self._connection.send("GET", f"{self._jobs}/job/{job_id}/events", headers=headers).json()
        return cast(list[shapes.Event], so_far["events"])

    def watch(self, job_id: str, after: int = 0) -> Iterator[shapes.Event]:
        """The events as they happen, until the job ends; goes on where it was when the connection breaks."""
        failures = 0
        while True:
            try:
                for event in self._stream(job_id, after):
                    after, failures = event["seq"], 0
                    yield event
                if self.get_job(job_id)["status"] != "active":
                    return
            except (httpx.TransportError, Unreachable, ApiError) as error:
                failures += 1
                if isinstance(error, ApiError) and error.status not in RETRIED:
                    raise
                if failures >= PATIENCE:
                    raise Unreachable(f"The connection to {self.url} broke: {error}") from None
                time.sleep(min(5, 0.5 * failures))

    def wait(self, job_id: str) -> shapes.Job:
        """Blocks until the job is no longer active."""
        for _ in self.watch(job_id):
            pass
        return self.get_job(job_id)

    def send_events(self, events: Iterable[Mapping[str, Any]]) -> shapes.Taken:
        """Page views of a site's server, as many as there are; what became of them.

        What the service refuses as a whole ends it. Events that all have an `eventId` are sent again when the
        connection breaks, since they are counted once all the same.
        """
        taken = shapes.Taken(accepted=0, duplicates=0, dropped=[])
        waiting, sent = iter(events), 0
        while batch := list(islice(waiting, AT_ONCE)):
            named = all(event.get("eventId") for event in batch)
            answer = self._connection.send("POST", f"{self._analytics}/events", body=batch, repeatable=named).json()
            taken["accepted"] += answer["accepted"]
            taken["duplicates"] += answer["duplicates"]
            for dropped in answer["dropped"]:
                dropped["index"] += sent
            taken["dropped"] += answer["dropped"]
            sent += len(batch)
        return taken

    def visitors(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0
    ) -> shapes.Visitors:
        """Unique visitors by page, from the one day (inclusive) to the other (exclusive)."""
        return cast(shapes.Visitors, self._report("visitors", date_from, date_to, limit=limit, offset=offset))

    def views(self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0) -> shapes.Views:
        return cast(shapes.Views, self._report("views", date_from, date_to, limit=limit, offset=offset))

    def agents(self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0) -> shapes.Agents:
        return cast(shapes.Agents, self._report("agents", date_from, date_to, limit=limit, offset=offset))

    def timeseries(
        self, date_from: Day = None, date_to: Day = None, *, interval: Interval = "day"
    ) -> shapes.Timeseries:
        return cast(shapes.Timeseries, self._report("timeseries", date_from, date_to, interval=interval))

    def feedback(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, cursor: str | None = None
    ) -> shapes.Feedback:
        """What readers said, newest first."""
        return cast(shapes.Feedback, self._report("feedback", date_from, date_to, limit=limit, cursor=cursor))

    def feedback_by_page(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0
    ) -> shapes.FeedbackByPage:
        found = self._report("feedback/by-page", date_from, date_to, limit=limit, offset=offset)
        return cast(shapes.FeedbackByPage, found)

    def rows(self, report: Report, date_from: Day = None, date_to: Day = None) -> Iterator[dict[str, Any]]:
        """Every row of a report, however many requests that takes."""
        most, seen, place = 100 if report.startswith("feedback") else 250, 0, dict[str, Any]()
        while True:
            page = self._report(report, date_from, date_to, limit=most, **place)
            found = page["pages" if report == "feedback/by-page" else report]
            yield from found
            if not page["hasMore"]:
                return
            seen += len(found)
            place = {"cursor": page["nextCursor"]} if "nextCursor" in page else {"offset": seen}

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _get(self, path: str, **query: Any) -> Any:
        return self._connection.send("GET", path, query=query).json()

    def _change(self, job_id: str, act: str, body: Any = None) -> shapes.Job:
        return cast(shapes.Job, self._connection.send("POST", f"{self._jobs}/job/{job_id}/{act}", body=body).json())

    def _report(self, name: str, date_from: Day, date_to: Day, **query: Any) -> Any:
        return self._get(f"{self._analytics}/{name}", dateFrom=_text(date_from), dateTo=_text(date_to), **query)

    def _stream(self, job_id: str, after: int) -> Iterator[shapes.Event]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        with self._connection.stream(f"{self._jobs}/job/{job_id}/events", headers) as response:
            if response.status_code != 200:
                response.read()
            checked(response)
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if not line and "data" in fields:
                    yield shapes.Event(seq=int(fields["id"]), kind=fields["event"], data=json.loads(fields["data"]))
                if not line:
                    fields = {}
                elif not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value


def _text(day: Day) -> str | None:
    return day.isoformat() if isinstance(day, date) else day
