"""The Python client of the API: create jobs, watch them, read what they did."""

import json
import os
import time
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, cast

import httpx2 as httpx

TRIES = 4
RETRIED = (502, 503, 504)
PATIENCE = 15


class Source(TypedDict):
    repository: str
    ref: str


class Usage(TypedDict):
    requests: int
    inputTokens: int
    outputTokens: int
    costUsd: float | None


class ChangedFile(TypedDict):
    path: str
    change: Literal["added", "modified", "renamed", "deleted"]
    previous: str | None
    additions: int
    deletions: int


class Job(TypedDict):
    """A job as the API shows it."""

    id: str
    status: Literal["active", "completed", "archived", "failed"]
    source: Source
    model: str
    prLink: str | None
    createdAt: str
    archivedAt: str | None
    prompt: str
    title: str | None
    summary: str | None
    phase: str
    reason: str | None
    message: str | None
    branch: str
    updatedAt: str
    finishedAt: str | None
    filesChanged: list[ChangedFile]
    checks: list[Any]
    usage: Usage


class JobPage(TypedDict):
    jobs: list[Job]
    nextCursor: str | None


class Event(TypedDict):
    seq: int
    kind: str
    data: dict[str, Any]


class ApiError(Exception):
    """The service refused; `status`, `code` and `request_id` say how."""

    def __init__(self, status: int, code: str, message: str, request_id: str | None) -> None:
        super().__init__(message)
        self.status, self.code, self.request_id = status, code, request_id


class Unreachable(Exception):
    """The service cannot be reached."""


class NotConfigured(ValueError):
    """The client does not know whom to ask."""


class Client:
    """One project, opened by one of its keys. What it does not get from its arguments it takes from the environment."""

    def __init__(
        self, url: str | None = None, key: str | None = None, project: str | None = None, *, timeout: float = 30
    ) -> None:
        self.url = (url or os.environ.get("COPYDESK_URL") or "http://127.0.0.1:8080").rstrip("/")
        self.project = project or os.environ.get("COPYDESK_PROJECT") or ""
        secret = key or os.environ.get("COPYDESK_API_KEY") or ""
        if not secret or not self.project:
            raise NotConfigured("Give an API key and a project: set COPYDESK_API_KEY and COPYDESK_PROJECT.")
        self._http = httpx.Client(timeout=timeout, headers={"Authorization": f"Bearer {secret}"})
        self._base = f"{self.url}/v2/agent/{self.project}"

    def create_job(self, prompt: str, *, idempotency_key: str | None = None, **options: Any) -> Job:
        """Options: model, ref, draft, title. Sent once, however often the connection breaks on the way."""
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return cast(Job, self._call("POST", "/job", {"prompt": prompt, **options}, headers))

    def get_job(self, job_id: str) -> Job:
        return cast(Job, self._call("GET", f"/job/{job_id}"))

    def list_jobs(self, *, status: str | None = None, limit: int = 20, cursor: str | None = None) -> JobPage:
        wanted = {"status": status, "limit": limit, "cursor": cursor}
        query = httpx.QueryParams({name: value for name, value in wanted.items() if value is not None})
        return cast(JobPage, self._call("GET", f"/jobs?{query}"))

    def message_job(self, job_id: str, prompt: str) -> Job:
        return cast(Job, self._call("POST", f"/job/{job_id}/message", {"prompt": prompt}))

    def cancel_job(self, job_id: str) -> Job:
        return cast(Job, self._call("POST", f"/job/{job_id}/cancel"))

    def archive_job(self, job_id: str) -> Job:
        return cast(Job, self._call("POST", f"/job/{job_id}/archive"))

    def unarchive_job(self, job_id: str) -> Job:
        return cast(Job, self._call("POST", f"/job/{job_id}/unarchive"))

    def diff(self, job_id: str) -> bytes:
        return self._send("GET", f"/job/{job_id}/diff").content

    def models(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._call("GET", "/models"))

    def events(self, job_id: str, after: int = 0) -> list[Event]:
        """The events so far."""
        headers = {"Accept": "application/json", "Last-Event-ID": str(after)}
        return cast(list[Event], self._call("GET", f"/job/{job_id}/events", headers=headers)["events"])

    def watch(self, job_id: str, after: int = 0) -> Iterator[Event]:
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

    def wait(self, job_id: str) -> Job:
        """Blocks until the job is no longer active."""
        for _ in self.watch(job_id):
            pass
        return self.get_job(job_id)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        return self._send(method, path, body, headers).json()

    def _send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> httpx.Response:
        """What may be repeated without harm is tried again when the service is away for a moment."""
        repeatable = method == "GET" or "Idempotency-Key" in (headers or {})
        for attempt in range(1, (TRIES if repeatable else 1) + 1):
            last = attempt == TRIES or not repeatable
            try:
                response = self._http.request(method, self._base + path, json=body, headers=headers)
            except httpx.TransportError as error:
                if last:
                    raise Unreachable(f"Copydesk at {self.url} cannot be reached: {error}") from None
            else:
                if response.status_code not in RETRIED or last:
                    return _checked(response)
            time.sleep(0.25 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _stream(self, job_id: str, after: int) -> Iterator[Event]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        with self._http.stream("GET", f"{self._base}/job/{job_id}/events", headers=headers) as response:
            if response.status_code != 200:
                response.read()
            _checked(response)
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if not line and "data" in fields:
                    yield Event(seq=int(fields["id"]), kind=fields["event"], data=json.loads(fields["data"]))
                if not line:
                    fields = {}
                elif not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value


def _checked(response: httpx.Response) -> httpx.Response:
    if response.status_code < 400:
        return response
    try:
        said = response.json()
        code, message, request_id = said["code"], said["error"], said.get("requestId")
    except (ValueError, KeyError, TypeError):
        code, message, request_id = "unknown", f"The service answered {response.status_code}.", None
    raise ApiError(response.status_code, code, message, request_id)
