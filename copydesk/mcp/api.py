"""Calls of the Copydesk API by the tools: over HTTP, or within the server.

Both go through the same request gate, so that a tool has exactly the rights and limits of its API key.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx2 as httpx

from copydesk_client.shapes import Event

MAX_ATTEMPTS = 3
RETRIED_STATUSES = (502, 503, 504)


class ApiRefused(Exception):
    """An error response of the API, or no response. The message is meant for the person or model that called."""

    def __init__(
        self, message: str, status: int = 0, code: str = "unreachable", retry_after: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after

    @property
    def is_temporary(self) -> bool:
        return self.status == 0 or self.status in RETRIED_STATUSES

    def describe(self) -> str:
        """Returns the message, the code, and when a further call may succeed."""
        hint = f", try again in {self.retry_after} seconds" if self.retry_after else ""
        return f"{self} ({self.code}{hint})"


class Api:
    """The API of one project, called with one API key. The HTTP client holds the address and the key."""

    def __init__(self, http: httpx.AsyncClient, project_id: str) -> None:
        self._http = http
        self.project_id = project_id
        self.jobs_path = f"/v2/agent/{project_id}"
        self.analytics_path = f"/v1/analytics/{project_id}"

    async def get(self, path: str, **query: Any) -> Any:
        """Returns the JSON of a GET request. Leaves out parameters that are None."""
        return (await self._send("GET", path, query=query)).json()

    async def get_text(self, path: str) -> str:
        return (await self._send("GET", path)).content.decode("utf-8", "replace")

    async def post(self, path: str, body: Any = None, *, idempotency_key: str | None = None) -> Any:
        """Returns the JSON of a POST request. Only one with an idempotency key is retried."""
        return (await self._send("POST", path, body=body, idempotency_key=idempotency_key)).json()

    async def list_events(self, job_id: str) -> list[Event]:
        path = f"{self.jobs_path}/job/{job_id}/events"
        body = (await self._send("GET", path, accept="application/json")).json()
        events: list[Event] = body["events"]
        return events

    async def stream_events(self, job_id: str, after: int) -> AsyncGenerator[Event | None]:
        """Yields a job's events as they happen, and None for each keep-alive. Ends when the server ends the stream."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        timeout = httpx.Timeout(30, read=60)  # the server sends a keep-alive every 15 seconds
        try:
            path = f"{self.jobs_path}/job/{job_id}/events"
            async with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
                if response.status_code != 200:
                    await response.aread()
                _raise_for_error(response)
                fields: dict[str, str] = {}
                async for line in response.aiter_lines():
                    if line.startswith(":"):
                        yield None
                    elif line:
                        name, _, value = line.partition(": ")
                        fields[name] = value
                    else:
                        if "data" in fields:
                            yield Event(seq=int(fields["id"]), kind=fields["event"], data=json.loads(fields["data"]))
                        fields = {}
        except httpx.TransportError as error:
            raise self._describe_unreachable(error) from None

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
        accept: str = "*/*",
    ) -> httpx.Response:
        headers = {"Accept": accept} | ({"Idempotency-Key": idempotency_key} if idempotency_key else {})
        params = {name: value for name, value in (query or {}).items() if value is not None}
        attempts = MAX_ATTEMPTS if method == "GET" or idempotency_key else 1
        for attempt in range(1, attempts + 1):
            try:
                response = await self._http.request(method, path, params=params, json=body, headers=headers)
            except httpx.TransportError as error:
                if attempt == attempts:
                    raise self._describe_unreachable(error) from None
            else:
                if response.status_code not in RETRIED_STATUSES or attempt == attempts:
                    return _raise_for_error(response)
            await anyio.sleep(0.25 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _describe_unreachable(self, error: httpx.TransportError) -> ApiRefused:
        return ApiRefused(f"Copydesk at {self._http.base_url} cannot be reached: {error or type(error).__name__}")


def _raise_for_error(response: httpx.Response) -> httpx.Response:
    if response.status_code < 400:
        return response
    retry_after = response.headers.get("retry-after")
    try:
        body = response.json()
        raise ApiRefused(str(body["error"]), response.status_code, str(body["code"]), retry_after)
    except (ValueError, KeyError, TypeError):
        message = f"The service responded with status {response.status_code}."
        raise ApiRefused(message, response.status_code, "unknown", retry_after) from None
