"""The client: one method per API call, and methods that combine several, such as `watch` and `rows`."""

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import islice
from types import TracebackType
from typing import Any, Literal, Self, cast
from urllib.parse import quote

import httpx2 as httpx

from copydesk_client import shapes
from copydesk_client.connection import RETRIED_STATUSES, ApiError, Connection, Unreachable, raise_for_error

MAX_STREAM_FAILURES = 15
EVENTS_PER_REQUEST = 1_000
Day = str | date | None
"""A day as text or a date. A datetime means the day that contains it."""
Interval = Literal["hour", "day", "week", "month"]
Report = Literal[
    "visitors", "views", "agents", "missing", "stale", "referrers", "sections", "history", "history/pages",
    "feedback", "feedback/by-page", "searches", "assistant",
]  # fmt: skip

PAGE_SIZES = {"feedback": 100, "feedback/by-page": 100, "searches": 100, "assistant": 1000}
ROW_FIELDS = {"feedback/by-page": "feedback", "assistant": "conversations", "history/pages": "pages"}
"""The fields with the rows of reports that do not have the report's name."""


class Client:
    """A client for one project, with one of its API keys. Missing arguments are read from the environment."""

    def __init__(
        self, url: str | None = None, key: str | None = None, project: str | None = None, *, timeout: float = 30
    ) -> None:
        self._connection = Connection(url, key, project, timeout)
        self.url, self.project = self._connection.url, self._connection.project
        self._jobs_path, self._analytics_path = f"/v2/agent/{self.project}", f"/v1/analytics/{self.project}"
        self._automations_path = f"{self._jobs_path}/automations"
        self._webhooks_path = f"{self._jobs_path}/webhooks"

    def create_job(self, prompt: str, *, idempotency_key: str | None = None, **options: Any) -> shapes.Job:
        """Creates a job. The options are model, ref, draft and title.

        An idempotency key makes retries safe: a broken connection never creates a second job.
        """
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        body = {"prompt": prompt, **options}
        response = self._connection.send("POST", f"{self._jobs_path}/job", body=body, headers=headers, repeatable=True)
        return cast(shapes.Job, response.json())

    def get_job(self, job_id: str) -> shapes.Job:
        return cast(shapes.Job, self._get(f"{self._jobs_path}/job/{job_id}"))

    def list_jobs(self, *, status: str | None = None, limit: int = 20, cursor: str | None = None) -> shapes.JobPage:
        return cast(shapes.JobPage, self._get(f"{self._jobs_path}/jobs", status=status, limit=limit, cursor=cursor))

    def message_job(self, job_id: str, prompt: str) -> shapes.Job:
        return self._post_action(job_id, "message", {"prompt": prompt})

    def cancel_job(self, job_id: str) -> shapes.Job:
        return self._post_action(job_id, "cancel")

    def archive_job(self, job_id: str) -> shapes.Job:
        return self._post_action(job_id, "archive")

    def unarchive_job(self, job_id: str) -> shapes.Job:
        return self._post_action(job_id, "unarchive")

    def retry_job(self, job_id: str, *, idempotency_key: str | None = None) -> shapes.Job:
        """Creates a new job with the prompt and options of one that has ended."""
        path = f"{self._jobs_path}/job/{job_id}/retry"
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return cast(shapes.Job, self._connection.send("POST", path, headers=headers, repeatable=True).json())

    def diff(self, job_id: str) -> bytes:
        return self._connection.send("GET", f"{self._jobs_path}/job/{job_id}/diff").content

    def get_key(self) -> shapes.Key:
        """Returns the API key of this client, without the key itself: its name, scopes, expiry and project."""
        return cast(shapes.Key, self._get(f"{self._jobs_path}/key"))

    def models(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._get(f"{self._jobs_path}/models"))

    def events(self, job_id: str, after: int = 0) -> list[shapes.Event]:
        """Returns the events so far that follow `after`, the number of an event."""
        headers = {"Accept": "application/json", "Last-Event-ID": str(after)}
        body = self._connection.send("GET", f"{self._jobs_path}/job/{job_id}/events", headers=headers).json()
        return cast(list[shapes.Event], body["events"])

    def watch(self, job_id: str, after: int = 0) -> Iterator[shapes.Event]:
        """Yields events as they happen, until the job ends. Continues at the same event after a broken connection."""
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
                if isinstance(error, ApiError) and error.status not in RETRIED_STATUSES:
                    raise
                if failures >= MAX_STREAM_FAILURES:
                    raise Unreachable(f"Lost the connection to {self.url}: {error}") from None
                time.sleep(min(5, 0.5 * failures))

    def wait(self, job_id: str) -> shapes.Job:
        """Waits until the job is no longer active, and returns it."""
        for _ in self.watch(job_id):
            pass
        return self.get_job(job_id)

    def list_templates(self) -> list[shapes.Template]:
        """Returns the project's prompt templates, and then the built-in ones."""
        return cast(list[shapes.Template], self._get(f"{self._jobs_path}/templates")["templates"])

    def get_template(self, name: str) -> shapes.Template:
        return cast(shapes.Template, self._get(self._template_path(name)))

    def create_template(self, name: str, title: str, prompt: str, **options: Any) -> shapes.Template:
        """Creates a prompt template. The options are description and fields, as in the API."""
        body = {"name": name, "title": title, "prompt": prompt, **options}
        return cast(shapes.Template, self._connection.send("POST", f"{self._jobs_path}/templates", body=body).json())

    def change_template(self, name: str, **parts: Any) -> shapes.Template:
        """Changes these parts of a template: title, description, prompt or fields."""
        return cast(shapes.Template, self._connection.send("PATCH", self._template_path(name), body=parts).json())

    def delete_template(self, name: str) -> None:
        self._connection.send("DELETE", self._template_path(name))

    def preview_template(self, name: str, fields: Mapping[str, str]) -> str:
        """Returns the prompt of a template with these values, without creating a job."""
        path = f"{self._template_path(name)}/preview"
        return cast(str, self._connection.send("POST", path, body={"fields": dict(fields)}).json()["prompt"])

    def create_job_from_template(
        self, name: str, fields: Mapping[str, str], *, idempotency_key: str | None = None, **options: Any
    ) -> shapes.Job:
        """Creates a job from a prompt template with these values. Options and key are those of `create_job`."""
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        body = {"fields": dict(fields), **options}
        path = f"{self._template_path(name)}/job"
        response = self._connection.send("POST", path, body=body, headers=headers, repeatable=True)
        return cast(shapes.Job, response.json())

    def create_automation(self, **fields: Any) -> shapes.Automation:
        """Creates an automation from its fields, spelled as in the API: kind, name, prompt, trigger, dailyLimit, …"""
        return cast(shapes.Automation, self._connection.send("POST", self._automations_path, body=fields).json())

    def list_automations(self) -> list[shapes.Automation]:
        return cast(list[shapes.Automation], self._get(self._automations_path)["automations"])

    def list_automation_files(self) -> shapes.AutomationFiles:
        """Returns the automation files of the project's branch, with their automations and problems."""
        return cast(shapes.AutomationFiles, self._get(f"{self._automations_path}/files"))

    def get_automation(self, automation_id: str) -> shapes.Automation:
        return cast(shapes.Automation, self._get(f"{self._automations_path}/{automation_id}"))

    def change_automation(self, automation_id: str, **fields: Any) -> shapes.Automation:
        """Changes these fields of an automation."""
        path = f"{self._automations_path}/{automation_id}"
        return cast(shapes.Automation, self._connection.send("PATCH", path, body=fields).json())

    def delete_automation(self, automation_id: str) -> None:
        self._connection.send("DELETE", f"{self._automations_path}/{automation_id}")

    def run_automation(self, automation_id: str, *, idempotency_key: str | None = None) -> shapes.AutomationRun:
        """Starts a run now. An idempotency key makes retries safe, as for `create_job`."""
        path = f"{self._automations_path}/{automation_id}/run"
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return cast(shapes.AutomationRun, self._connection.send("POST", path, headers=headers, repeatable=True).json())

    def list_automation_runs(
        self, automation_id: str, *, limit: int = 20, cursor: str | None = None
    ) -> shapes.AutomationRunPage:
        """Returns the runs of an automation, newest first."""
        path = f"{self._automations_path}/{automation_id}/runs"
        return cast(shapes.AutomationRunPage, self._get(path, limit=limit, cursor=cursor))

    def send_events(self, events: Iterable[Mapping[str, Any]]) -> shapes.Taken:
        """Sends page views from a site's server, in batches. Returns how many were accepted and which were dropped.

        Raises ApiError if the service refuses a whole batch. Retries a batch after a broken connection if all of its
        events have an `eventId`, since such events count only once.
        """
        result = shapes.Taken(accepted=0, duplicates=0, dropped=[])
        remaining, sent_count = iter(events), 0
        while batch := list(islice(remaining, EVENTS_PER_REQUEST)):
            have_ids = all(event.get("eventId") for event in batch)
            reply = self._connection.send(
                "POST", f"{self._analytics_path}/events", body=batch, repeatable=have_ids
            ).json()
            result["accepted"] += reply["accepted"]
            result["duplicates"] += reply["duplicates"]
            for dropped in reply["dropped"]:
                dropped["index"] += sent_count
            result["dropped"] += reply["dropped"]
            sent_count += len(batch)
        return result

    def visitors(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0
    ) -> shapes.Visitors:
        """Returns unique visitors by page, from `date_from` (inclusive) to `date_to` (exclusive)."""
        return cast(shapes.Visitors, self._get_report("visitors", date_from, date_to, limit=limit, offset=offset))

    def views(self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0) -> shapes.Views:
        return cast(shapes.Views, self._get_report("views", date_from, date_to, limit=limit, offset=offset))

    def agents(self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0) -> shapes.Agents:
        return cast(shapes.Agents, self._get_report("agents", date_from, date_to, limit=limit, offset=offset))

    def referrers(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0
    ) -> shapes.Referrers:
        """Returns where people came from, with exact unique visitors."""
        return cast(shapes.Referrers, self._get_report("referrers", date_from, date_to, limit=limit, offset=offset))

    def sections(
        self,
        date_from: Day = None,
        date_to: Day = None,
        *,
        prefix: str | None = None,
        depth: int | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> shapes.Sections:
        """Returns exact unique visitors by the beginning of the path: the top level, or the sections below `prefix`."""
        params = {"prefix": prefix, "depth": depth, "limit": limit, "offset": offset}
        return cast(shapes.Sections, self._get_report("sections", date_from, date_to, **params))

    def page(self, path: str, date_from: Day = None, date_to: Day = None) -> shapes.PageDetail:
        """Returns one page: its numbers, feedback, searches that led to it, its last commit and jobs about it."""
        report = f"pages/{quote(path.lstrip('/'), safe='/')}"
        return cast(shapes.PageDetail, self._get_report(report, date_from, date_to))

    def missing(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0
    ) -> shapes.Missing:
        """Returns paths that were answered with 404 or 410, with their unique visitors and where they came from."""
        return cast(shapes.Missing, self._get_report("missing", date_from, date_to, limit=limit, offset=offset))

    def stale(self, *, limit: int = 50, offset: int = 0) -> shapes.Stale:
        """Returns popular pages whose sources changed after the page was last edited, and how old that result is."""
        return cast(shapes.Stale, self._get_report("stale", None, None, limit=limit, offset=offset))

    def refresh_stale(self) -> shapes.StaleState:
        """Requests that the popular pages are compared with their sources again, in the background."""
        response = self._connection.send("POST", f"{self._analytics_path}/stale/refresh")
        return cast(shapes.StaleState, response.json())

    def history(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0
    ) -> shapes.History:
        """Returns the daily totals that other tools have counted and that were imported."""
        return cast(shapes.History, self._get_report("history", date_from, date_to, limit=limit, offset=offset))

    def history_pages(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0
    ) -> shapes.HistoryPages:
        """Returns what other tools have counted for each page."""
        report = self._get_report("history/pages", date_from, date_to, limit=limit, offset=offset)
        return cast(shapes.HistoryPages, report)

    def timeseries(
        self, date_from: Day = None, date_to: Day = None, *, interval: Interval = "day"
    ) -> shapes.Timeseries:
        return cast(shapes.Timeseries, self._get_report("timeseries", date_from, date_to, interval=interval))

    def feedback(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, cursor: str | None = None
    ) -> shapes.Feedback:
        """Returns the feedback of readers, newest first."""
        return cast(shapes.Feedback, self._get_report("feedback", date_from, date_to, limit=limit, cursor=cursor))

    def feedback_by_page(
        self, date_from: Day = None, date_to: Day = None, *, limit: int = 50, offset: int = 0
    ) -> shapes.FeedbackByPage:
        report = self._get_report("feedback/by-page", date_from, date_to, limit=limit, offset=offset)
        return cast(shapes.FeedbackByPage, report)

    def create_share(
        self, parts: Iterable[str] = (), *, name: str = "", expires_in_days: int | None = None
    ) -> shapes.CreatedShare:
        """Creates a public, read-only link to these parts of the analytics, or to a badge. Its URL is shown once."""
        body = {"parts": list(parts), "name": name, "expiresInDays": expires_in_days}
        response = self._connection.send("POST", f"{self._analytics_path}/shares", body=body)
        return cast(shapes.CreatedShare, response.json())

    def list_shares(self) -> list[shapes.Share]:
        return cast(list[shapes.Share], self._get(f"{self._analytics_path}/shares")["shares"])

    def revoke_share(self, share_id: str) -> None:
        self._connection.send("DELETE", f"{self._analytics_path}/shares/{share_id}")

    def add_webhook(self, url: str, *, format: str = "json", events: Iterable[str] = ()) -> shapes.CreatedWebhook:  # noqa: A002
        """Adds a webhook. Its signing secret is shown once. Without `events`, it gets all of them."""
        body = {"url": url, "format": format, "events": list(events)}
        return cast(shapes.CreatedWebhook, self._connection.send("POST", self._webhooks_path, body=body).json())

    def list_webhooks(self) -> list[shapes.Webhook]:
        return cast(list[shapes.Webhook], self._get(self._webhooks_path)["webhooks"])

    def get_webhook(self, webhook_id: str) -> shapes.Webhook:
        return cast(shapes.Webhook, self._get(f"{self._webhooks_path}/{webhook_id}"))

    def change_webhook(self, webhook_id: str, **fields: Any) -> shapes.Webhook:
        """Changes these fields: `url`, `format`, `events` and `enabled`."""
        response = self._connection.send("PATCH", f"{self._webhooks_path}/{webhook_id}", body=fields)
        return cast(shapes.Webhook, response.json())

    def rotate_webhook_secret(self, webhook_id: str) -> shapes.CreatedWebhook:
        """Creates a new signing secret, shown once. For 24 hours, deliveries are signed with both."""
        response = self._connection.send("POST", f"{self._webhooks_path}/{webhook_id}/rotate")
        return cast(shapes.CreatedWebhook, response.json())

    def test_webhook(self, webhook_id: str) -> shapes.WebhookDelivery:
        """Queues a test event, which a worker sends within seconds."""
        response = self._connection.send("POST", f"{self._webhooks_path}/{webhook_id}/test")
        return cast(shapes.WebhookDelivery, response.json())

    def remove_webhook(self, webhook_id: str) -> None:
        self._connection.send("DELETE", f"{self._webhooks_path}/{webhook_id}")

    def list_webhook_deliveries(
        self, webhook_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> shapes.WebhookDeliveryPage:
        path = f"{self._webhooks_path}/{webhook_id}/deliveries"
        return cast(shapes.WebhookDeliveryPage, self._get(path, limit=limit, cursor=cursor))

    def get_webhook_delivery(self, webhook_id: str, delivery_id: str) -> shapes.WebhookDeliveryDetails:
        """Returns a delivery with each attempt."""
        path = f"{self._webhooks_path}/{webhook_id}/deliveries/{delivery_id}"
        return cast(shapes.WebhookDeliveryDetails, self._get(path))

    def redeliver_webhook(self, webhook_id: str, delivery_id: str) -> shapes.WebhookDelivery:
        """Sends an event again, with the same ID, as a new delivery."""
        path = f"{self._webhooks_path}/{webhook_id}/deliveries/{delivery_id}/redeliver"
        return cast(shapes.WebhookDelivery, self._connection.send("POST", path).json())

    def rows(self, report: Report, date_from: Day = None, date_to: Day = None) -> Iterator[dict[str, Any]]:
        """Yields every row of a report, in as many requests as needed."""
        page_size, offset, position = PAGE_SIZES.get(report, 250), 0, dict[str, Any]()
        while True:
            page = self._get_report(report, date_from, date_to, limit=page_size, **position)
            rows = page[ROW_FIELDS.get(report, report)]
            yield from rows
            if not page.get("hasMore", page.get("nextCursor") is not None):
                return
            offset += len(rows)
            position = {"cursor": page["nextCursor"]} if "nextCursor" in page else {"offset": offset}

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _template_path(self, name: str) -> str:
        return f"{self._jobs_path}/templates/{quote(name, safe='')}"

    def _get(self, path: str, **query: Any) -> Any:
        return self._connection.send("GET", path, query=query).json()

    def _post_action(self, job_id: str, action: str, body: Any = None) -> shapes.Job:
        return cast(
            shapes.Job, self._connection.send("POST", f"{self._jobs_path}/job/{job_id}/{action}", body=body).json()
        )

    def _get_report(self, name: str, date_from: Day, date_to: Day, **query: Any) -> Any:
        return self._get(
            f"{self._analytics_path}/{name}", dateFrom=_format_day(date_from), dateTo=_format_day(date_to), **query
        )

    def _stream(self, job_id: str, after: int) -> Iterator[shapes.Event]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        with self._connection.stream(f"{self._jobs_path}/job/{job_id}/events", headers) as response:
            if response.status_code != 200:
                response.read()
            raise_for_error(response)
            for event in httpx.EventSource(response, max_event_size=None):
                if event.data:
                    yield shapes.Event(seq=int(event.id), kind=event.event, data=json.loads(event.data))


def _format_day(day: Day) -> str | None:
    return day.isoformat() if isinstance(day, date) else day
