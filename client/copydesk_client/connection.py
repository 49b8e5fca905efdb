"""The HTTP connection to the service: authentication, retries and errors."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import httpx2 as httpx

MAX_ATTEMPTS = 4
RETRIED_STATUSES = (502, 503, 504)
KEY_MISSING = "The API key is missing. Set COPYDESK_API_KEY; 'copydesk key create' creates a key."
PROJECT_MISSING = "The project is missing. Set COPYDESK_PROJECT; 'copydesk project list' lists the projects."
START_HINT = "Is 'copydesk serve' running there? COPYDESK_URL names the service."


class ApiError(Exception):
    """An error response of the service, with its `status`, `code`, `request_id` and `details`."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        request_id: str | None,
        details: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.request_id = status, code, request_id
        self.details = list(details)
        """The fields that are wrong, each with `field` and `message`."""


class Unreachable(Exception):
    """The service cannot be reached."""


class NotConfigured(ValueError):
    """The API key or the project is missing."""


class Connection:
    """An HTTP connection for one project and key. Missing arguments are read from the environment."""

    def __init__(self, url: str | None, key: str | None, project: str | None, timeout: float) -> None:
        self.url = (url or os.environ.get("COPYDESK_URL") or "http://127.0.0.1:8080").rstrip("/")
        self.project = project or os.environ.get("COPYDESK_PROJECT") or ""
        secret = key or os.environ.get("COPYDESK_API_KEY") or ""
        missing = [message for value, message in ((secret, KEY_MISSING), (self.project, PROJECT_MISSING)) if not value]
        if missing:
            raise NotConfigured(" ".join(missing))
        self._http = httpx.Client(timeout=timeout, headers={"Authorization": f"Bearer {secret}"})

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: dict[str, str] | None = None,
        repeatable: bool = False,
    ) -> httpx.Response:
        """Sends a request. Retries it while the service is unavailable, if it is a GET or `repeatable`."""
        repeatable = repeatable or method == "GET"
        params = {name: value for name, value in (query or {}).items() if value is not None}
        for attempt in range(1, (MAX_ATTEMPTS if repeatable else 1) + 1):
            is_last_attempt = attempt == MAX_ATTEMPTS or not repeatable
            try:
                response = self._http.request(method, self.url + path, params=params, json=body, headers=headers)
            except httpx.TransportError as error:
                if is_last_attempt:
                    hint = f". {START_HINT}" if isinstance(error, httpx.ConnectError) else ""
                    raise Unreachable(f"Copydesk at {self.url} cannot be reached: {error}{hint}") from None
            else:
                if response.status_code not in RETRIED_STATUSES or is_last_attempt:
                    return raise_for_error(response)
            time.sleep(0.25 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def stream(self, path: str, headers: dict[str, str]) -> AbstractContextManager[httpx.Response]:
        return self._http.stream("GET", self.url + path, headers=headers)

    def close(self) -> None:
        self._http.close()


def raise_for_error(response: httpx.Response) -> httpx.Response:
    if response.status_code < 400:
        return response
    try:
        body = response.json()
        code, message, request_id = body["code"], body["error"], body.get("requestId")
        details = body.get("details") or ()
    except (ValueError, KeyError, TypeError):
        code, message, request_id = "unknown", f"The service responded with status {response.status_code}.", None
        details = ()
    raise ApiError(response.status_code, code, message, request_id, details)
