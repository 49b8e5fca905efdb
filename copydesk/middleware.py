"""ASGI and WSGI middleware that reports page views to Copydesk, including those of agents that run no JavaScript.

It needs only the standard library, so you can copy this file into a site. An API key with the scope `events` is enough.
A request only adds its view to a bounded queue in memory; a thread sends the views. Errors are logged and never reach
the site.
"""

import atexit
import gzip
import json
import logging
import os
import random
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

log = logging.getLogger("copydesk.middleware")

MAX_QUEUED_VIEWS = 10_000
VIEWS_PER_BATCH = 500
BATCH_INTERVAL_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 60.0
REQUEST_TIMEOUT_SECONDS = 10.0
CLOSE_TIMEOUT_SECONDS = 5.0
"""How many seconds a stopping site waits until its last views are sent."""
PAGE_TYPES = ("text/html", "application/xhtml+xml", "text/markdown", "text/x-markdown")
MODEL_PAGE_PATTERN = re.compile(r".*(?:\.mdx?|\.markdown|/llms(?:-full)?\.txt)", re.IGNORECASE | re.DOTALL)
"""Matches pages for language models, which servers often send as plain text."""
RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
MAX_FIELD_CHARS = {"url": 8192, "userAgent": 1024, "referrer": 2048, "accept": 1024, "ip": 64}

Event = dict[str, str | int]
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Environ = dict[str, Any]
WSGIApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class CopydeskASGI:
    """Wraps an ASGI application: `app = CopydeskASGI(app, url, project, key)`. Takes the options of `ViewRecorder`."""

    def __init__(self, app: ASGIApp, url: str, project: str, key: str, **options: Any) -> None:
        self.app = app
        self.views = ViewRecorder(url, project, key, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.views.record(_read_asgi_request, scope, message["status"], message.get("headers", ()))
            elif message["type"] == "lifespan.shutdown.complete":
                self.views.queue.close()
            await send(message)

        is_watched = scope["type"] == "lifespan" or (scope["type"] == "http" and scope["method"] == "GET")
        await self.app(scope, receive, send_and_record if is_watched else send)


class CopydeskWSGI:
    """Wraps a WSGI application: `app = CopydeskWSGI(app, url, project, key)`. Takes the options of `ViewRecorder`."""

    def __init__(self, app: WSGIApp, url: str, project: str, key: str, **options: Any) -> None:
        self.app = app
        self.views = ViewRecorder(url, project, key, **options)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start_and_record(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            if environ["REQUEST_METHOD"] == "GET":
                self.views.record(_read_wsgi_request, environ, status, headers)
            return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

        return self.app(environ, start_and_record)


class ViewRecorder:
    """Decides which responses are page views, and queues an event for each."""

    def __init__(
        self, url: str, project: str, key: str, *, address_header: str = "", proxies: int = 1, beacon: bool = False
    ) -> None:
        """Takes the project's id and key, and options that describe the site.

        `address_header` names the header in which your proxy writes the client's address. If it is a list, such as
        X-Forwarded-For, the entry that the outermost of your `proxies` wrote counts. Set `beacon` if the pages also
        carry the beacon: then requests with Sec-Fetch-Dest, which browsers send, are left to the beacon.
        """
        self.queue = ViewSender(url, project, key)
        self.address_header = address_header.lower()
        self.proxies = proxies
        self.beacon = beacon

    def record(self, read: "Reader", request: Any, status: int | str, headers: Iterable[tuple[Any, Any]]) -> None:
        try:
            code = int(str(status)[:3])
            url, peer, request_headers = read(request)
            if self._is_view(url, request_headers, code, headers):
                self.queue.put(self._build_event(url, peer, request_headers, code))
        except Exception:
            log.exception("could not record a view")

    def _is_view(
        self, url: str, request_headers: Mapping[str, str], status: int, headers: Iterable[tuple[Any, Any]]
    ) -> bool:
        if not (200 <= status < 300 or status in (304, 404, 410)):
            return False
        if any("pre" in request_headers.get(name, "") for name in ("sec-purpose", "purpose", "x-moz")):
            return False
        if self.beacon and "sec-fetch-dest" in request_headers:
            return False
        if MODEL_PAGE_PATTERN.fullmatch(url.partition("?")[0]):
            return True
        content_type = next((_decode(value) for name, value in headers if _decode(name).lower() == "content-type"), "")
        if status == 304 and not content_type:  # a 304 often has no type, so Accept decides
            content_type = request_headers.get("accept", "")
        return content_type.lower().startswith(PAGE_TYPES)

    def _build_event(self, url: str, peer: str, request_headers: Mapping[str, str], status: int) -> Event:
        if self.address_header:
            addresses = request_headers.get(self.address_header, "").split(",")
            peer = addresses[-self.proxies] if len(addresses) >= self.proxies else ""
        fields = {
            "url": url,
            "userAgent": request_headers.get("user-agent", ""),
            "accept": request_headers.get("accept", ""),
            "referrer": request_headers.get("referer", ""),
            "ip": peer.strip(),
        }
        event: Event = {name: value[: MAX_FIELD_CHARS[name]] for name, value in fields.items() if value}
        return event | {"status": status, "timestamp": time.time_ns() // 1_000_000, "eventId": uuid.uuid4().hex}


Reader = Callable[[Any], tuple[str, str, Mapping[str, str]]]
"""Converts a server's request to the page's URL, the peer's address, and the headers by lower-case name."""


def _read_asgi_request(scope: Scope) -> tuple[str, str, Mapping[str, str]]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1")
        value = raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    query = b"?" + scope["query_string"] if scope.get("query_string") else b""
    target = (path.partition(b"?")[0] + query).decode("latin-1")
    url = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}{target}"
    return url, (scope.get("client") or ("",))[0], headers


def _read_wsgi_request(environ: Environ) -> tuple[str, str, Mapping[str, str]]:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    path = quote((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1"))
    query = "?" + environ["QUERY_STRING"] if environ.get("QUERY_STRING") else ""
    host = headers.get("host") or environ.get("SERVER_NAME", "")
    return f"{environ['wsgi.url_scheme']}://{host}{path}{query}", environ.get("REMOTE_ADDR", ""), headers


def _decode(value: bytes | str) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


class NoRedirect(HTTPRedirectHandler):
    """Refuses redirects, so that the API key is sent only to the configured URL."""

    def redirect_request(self, *_: Any) -> None:
        return None


class ViewSender:
    """Queues views in memory, up to a limit. A thread sends them in batches and retries temporary errors.

    Every event has an id before it is queued, so an event that is sent twice counts once.
    """

    def __init__(self, url: str, project: str, key: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError("The url of Copydesk must begin with http:// or https://.")
        self.url = f"{url.rstrip('/')}/v1/analytics/{project}/events"
        self.headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        self.sent = self.lost = 0
        self._warned_at = float("-inf")
        self._open_url = build_opener(NoRedirect).open
        self._reset()
        atexit.register(self.close)

    def _reset(self) -> None:
        self._process_id = os.getpid()
        self._pending: deque[Event] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._deadline: float | None = None

    def put(self, event: Event) -> None:
        if self._process_id != os.getpid():  # a forked worker has the queue, not the thread
            self._reset()
        with self._changed:
            if len(self._pending) >= MAX_QUEUED_VIEWS:
                self._count_lost(1, "the queue is full")
                return
            self._pending.append(event)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="copydesk", daemon=True)
                thread.start()
                self._thread = thread
            if len(self._pending) in (1, VIEWS_PER_BATCH):
                self._changed.notify_all()

    def close(self) -> None:
        """Sends the queued views, for at most CLOSE_TIMEOUT_SECONDS. Views that arrive later are still sent."""
        thread = self._thread
        if thread is None or self._process_id != os.getpid():
            return
        with self._changed:
            self._deadline = time.monotonic() + CLOSE_TIMEOUT_SECONDS
            self._changed.notify_all()
        thread.join(CLOSE_TIMEOUT_SECONDS)

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                self._deliver(batch)
            except Exception:
                log.exception("%d views were lost", len(batch))

    def _next_batch(self) -> list[Event]:
        """Returns the views of one second, or a full batch as soon as there is one; an empty list ends the thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._deadline)
            self._changed.wait_for(
                lambda: len(self._pending) >= VIEWS_PER_BATCH or self._deadline, BATCH_INTERVAL_SECONDS
            )
            batch = [self._pending.popleft() for _ in range(min(VIEWS_PER_BATCH, len(self._pending)))]
            if not batch:
                self._thread = self._deadline = None
            return batch

    def _deliver(self, batch: list[Event]) -> None:
        body = gzip.compress(json.dumps(batch).encode(), 5)
        count = len(batch)
        request = Request(self.url, body, self.headers, method="POST")  # noqa: S310
        pause = 0.5
        while True:
            pause = min(MAX_BACKOFF_SECONDS, 2 * pause)
            try:
                with self._open_url(request, timeout=REQUEST_TIMEOUT_SECONDS) as response:
                    response.read()
                self.sent += count
                return
            except HTTPError as http_error:
                with http_error:
                    reason = f"{http_error.code} {_read_error_message(http_error)}"
                if http_error.code == 413 and count > 1:
                    self._deliver(batch[: count // 2])
                    self._deliver(batch[count // 2 :])
                    return
                if http_error.code not in RETRYABLE_STATUSES:
                    self._count_lost(count, reason)
                    return
                pause = max(pause, min(MAX_BACKOFF_SECONDS, _parse_retry_after(http_error.headers.get("Retry-After"))))
            except (OSError, HTTPException) as network_error:
                reason = str(network_error)
            if not self._wait_before_retry(pause * random.uniform(1, 1.25)):  # noqa: S311
                self._count_lost(count, reason)
                return

    def _wait_before_retry(self, seconds: float) -> bool:
        """Waits, and returns whether to retry: False once a stopping site has reached its deadline."""
        with self._changed:
            self._changed.wait_for(lambda: self._deadline, seconds)
            if self._deadline is None:
                return True
        time.sleep(0.1)
        return time.monotonic() < self._deadline

    def _count_lost(self, count: int, reason: str) -> None:
        self.lost += count
        if time.monotonic() - self._warned_at > 60:
            self._warned_at = time.monotonic()
            log.warning("Views were lost, %d so far: %s", self.lost, reason)


def _parse_retry_after(header: str | None) -> float:
    return float(header) if header and header.isdecimal() else 0.0


def _read_error_message(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read(4096))["error"])
    except (ValueError, KeyError, TypeError, OSError, HTTPException):
        return str(error.reason)
