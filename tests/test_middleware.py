"""The middlewares around real sites: the events they send, their retries, and an undisturbed site."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx2 as httpx
import pytest
import uvicorn

from copydesk import middleware
from copydesk.middleware import MAX_QUEUED_VIEWS, CopydeskASGI, CopydeskWSGI, ViewRecorder, ViewSender
from tests.support.collector import RETRY_AFTER_SECONDS, FakeCollector, fake_collector
from tests.support.cpu_budget import limit_cpu
from tests.support.pages import COUNTED_PATHS, NOT_FOUND, PAGES
from tests.support.service import Service

ROOT = Path(__file__).parent.parent
READER = {
    "User-Agent": "Claude-User (claude-code/2.1; +https://example.org)",
    "Accept": "text/markdown, text/html, */*",
}
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"


async def asgi_site(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        for phase in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{phase}.complete"})
        return
    status, kind = PAGES.get(scope["path"], NOT_FOUND)
    headers = [(b"content-type", kind.encode())] if kind else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def wsgi_site(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    status, kind = PAGES.get(environ["PATH_INFO"], NOT_FOUND)
    start_response(f"{status} as ever", [("Content-Type", kind)] if kind else [])
    return [b""]


@contextmanager
def asgi(collector: FakeCollector, **options: Any) -> Iterator[tuple[httpx.Client, ViewRecorder]]:
    app = CopydeskASGI(asgi_site, collector.url, "proj_1", "desk_key", **options)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", headers=READER, timeout=60) as client:
        yield client, app.views
    server.should_exit = True
    thread.join(60)


@contextmanager
def wsgi(collector: FakeCollector, **options: Any) -> Iterator[tuple[httpx.Client, ViewRecorder]]:
    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    app = CopydeskWSGI(wsgi_site, collector.url, "proj_1", "desk_key", **options)
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        with httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", headers=READER, timeout=60) as client:
            yield client, app.views
        server.shutdown()


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with fake_collector() as running:
        yield running


@pytest.fixture(params=[asgi, wsgi], ids=["asgi", "wsgi"])
def around(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_page_view_is_sent_with_all_visitor_fields(collector: FakeCollector, around: Any) -> None:
    before = time.time_ns() // 1_000_000
    with around(collector) as (client, views):
        client.get("/guide/setup?a=1", headers={"Referer": "https://chat.example.com/"})
        views.queue.close()
    (event,) = collector.events
    assert event.pop("eventId")
    assert before <= event.pop("timestamp") <= time.time_ns() // 1_000_000
    assert event == {
        "url": f"{client.base_url}/guide/setup?a=1",
        "status": 200,
        "ip": "127.0.0.1",
        "userAgent": READER["User-Agent"],
        "accept": READER["Accept"],
        "referrer": "https://chat.example.com/",
    }
    assert collector.requests[0].path == "/v1/analytics/proj_1/events"
    assert collector.requests[0].headers["Authorization"] == "Bearer desk_key"
    assert views.queue.sent == 1


def test_only_page_views_and_missing_pages_are_sent(collector: FakeCollector, around: Any) -> None:
    with around(collector) as (client, views):
        for path in (*PAGES, "/missing"):
            client.get(path)
        client.head("/")
        client.post("/")
        client.get("/", headers={"Sec-Purpose": "prefetch;prerender"})
        views.queue.close()
    told = [event["url"].removeprefix(str(client.base_url)) for event in collector.events]
    assert told == [*COUNTED_PATHS, "/missing"]
    assert [event["status"] for event in collector.events if event["url"].endswith("/missing")] == [404]


@pytest.mark.parametrize(
    ("options", "headers", "address"),
    [
        ({}, {"X-Forwarded-For": "203.0.113.9"}, "127.0.0.1"),
        ({"address_header": "CF-Connecting-IP"}, {"CF-Connecting-IP": "2001:db8::1"}, "2001:db8::1"),
        ({"address_header": "X-Forwarded-For"}, {"X-Forwarded-For": "6.6.6.6, 203.0.113.9"}, "203.0.113.9"),
        (
            {"address_header": "X-Forwarded-For", "proxies": 2},
            {"X-Forwarded-For": "6.6.6.6, 203.0.113.9, 192.0.2.1"},
            "203.0.113.9",
        ),
        ({"address_header": "X-Forwarded-For", "proxies": 2}, {"X-Forwarded-For": "6.6.6.6"}, None),
        ({"address_header": "X-Real-IP"}, {}, None),
    ],
)
def test_client_address_comes_from_the_trusted_proxy(
    collector: FakeCollector, options: dict[str, Any], headers: dict[str, str], address: str | None
) -> None:
    with wsgi(collector, **options) as (client, views):
        client.get("/", headers=headers)
        views.queue.close()
    assert [event.get("ip") for event in collector.events] == [address]


def test_browsers_are_skipped_when_pages_have_the_beacon(collector: FakeCollector, around: Any) -> None:
    with around(collector, beacon=True) as (client, views):
        client.get("/", headers={"Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"})
        client.get("/twin", headers={"Sec-Fetch-Mode": "cors"})  # as Node's fetch sends it
        views.queue.close()
    assert [event["url"] for event in collector.events] == [f"{client.base_url}/twin"]


@pytest.mark.parametrize("trouble", [503, 429, "cut"])
def test_batch_is_retried_with_the_same_ids_until_accepted(collector: FakeCollector, trouble: int | str) -> None:
    collector.failures = [trouble, trouble]
    with wsgi(collector) as (client, views):
        client.get("/")
        client.get("/twin")
        views.queue.close()
    assert len(collector.requests) == 3
    ids = [[event["eventId"] for event in request.events] for request in collector.requests]
    assert ids[0] == ids[1] == ids[2]
    assert (views.queue.sent, views.queue.lost) == (2, 0)


@pytest.mark.drill
def test_retry_after_of_copydesk_is_honored(collector: FakeCollector) -> None:
    collector.failures = [503]
    with wsgi(collector) as (client, views):
        client.get("/")
        began = time.monotonic()
        while views.queue.sent < 1 and time.monotonic() < began + 60:
            time.sleep(0.05)
    first, second = collector.requests
    assert first.events == second.events
    assert second.at - first.at >= RETRY_AFTER_SECONDS


def test_too_large_batch_is_split(collector: FakeCollector) -> None:
    collector.failures = [413, 413]
    with wsgi(collector) as (client, views):
        for path in ("/", "/twin", "/llms.txt"):
            client.get(path)
        views.queue.close()
    sizes = [len(request.events) for request in collector.requests]
    assert sizes == [3, 1, 2]
    assert (views.queue.sent, views.queue.lost) == (2, 1)


def test_refused_views_are_counted_and_logged_once(collector: FakeCollector, caplog: pytest.LogCaptureFixture) -> None:
    collector.failures = [401, 401]
    with wsgi(collector) as (client, views):
        for _ in range(2):
            assert client.get("/").status_code == 200
            views.queue.close()
    assert views.queue.lost == 2
    assert len(collector.requests) == 2
    assert [record.getMessage() for record in caplog.records] == ["Views were lost, 1 so far: 401 No such key."]


def test_the_key_does_not_follow_a_redirect(collector: FakeCollector) -> None:
    collector.failures = [307]
    with wsgi(collector) as (client, views):
        client.get("/")
        views.queue.close()
    assert [request.path for request in collector.requests] == ["/v1/analytics/proj_1/events"]
    assert views.queue.lost == 1


def test_unavailable_collector_costs_no_time_and_bounded_memory() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    sender = ViewSender(f"http://127.0.0.1:{port}", "proj_1", "desk_key")
    with limit_cpu(seconds=1):
        for number in range(MAX_QUEUED_VIEWS + 1500):
            sender.put({"eventId": str(number)})
    assert 500 <= sender.lost <= 1500


def test_a_view_costs_the_site_microseconds(collector: FakeCollector) -> None:
    views = ViewRecorder(collector.url, "proj_1", "desk_key")
    scope = {"path": "/guide", "query_string": b"", "client": ("192.0.2.1", 1), "scheme": "https"}
    scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in READER.items()]
    with limit_cpu(seconds=2000 * 200e-6):
        for _ in range(2000):
            views.record(middleware._read_asgi_request, scope, 200, [(b"content-type", b"text/html")])
    views.queue.close()
    assert views.queue.sent == 2000
    assert max(len(request.events) for request in collector.requests) <= 500


def test_middleware_errors_never_reach_the_site(collector: FakeCollector, caplog: pytest.LogCaptureFixture) -> None:
    answered = []
    site = CopydeskWSGI(wsgi_site, collector.url, "proj_1", "desk_key")
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "SCRIPT_NAME": "\u20ac", "wsgi.url_scheme": "http"}
    assert list(site(environ, lambda status, headers: answered.append(status))) == [b""]
    assert answered == ["200 as ever"]
    assert "could not record a view" in caplog.text


ENDS = """
import os, sys
from copydesk.middleware import CopydeskWSGI
def site(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/html")])
    return [b""]
app = CopydeskWSGI(site, sys.argv[1], "proj_1", "desk_key")
def visit(path):
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_HOST": "docs.example.org", "wsgi.url_scheme": "https"}
    list(app(environ, print))
visit("/before")
child = os.fork() if len(sys.argv) > 2 else 0
if len(sys.argv) > 2:
    visit("/child" if child == 0 else "/parent")
if child:
    os.waitpid(child, 0)
"""


def test_site_sends_its_last_views_on_exit(collector: FakeCollector) -> None:
    subprocess.run([sys.executable, "-c", ENDS, collector.url], check=True, stdout=subprocess.DEVNULL, timeout=60)
    assert [event["url"] for event in collector.events] == ["https://docs.example.org/before"]


def test_forked_workers_send_their_own_views_once(collector: FakeCollector) -> None:
    command = [sys.executable, "-c", ENDS, collector.url, "fork"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    pages = sorted(event["url"].removeprefix("https://docs.example.org") for event in collector.events)
    assert pages == ["/before", "/child", "/parent"]


STOPS = """
from copydesk.middleware import CopydeskASGI
async def site(scope, receive, send):
    if scope["type"] == "lifespan":
        for phase in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{phase}.complete"})
    else:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body"})
"""


@pytest.mark.deep
def test_asgi_server_sends_its_last_views_on_shutdown(collector: FakeCollector, tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text(f"{STOPS}app = CopydeskASGI(site, '{collector.url}', 'proj_1', 'desk_key')\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", "uvicorn", "--port", "0", "pages:app"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+", line)))
        assert httpx.get(f"{address}/twin", timeout=60).status_code == 200
        server.send_signal(signal.SIGTERM)
        server.stderr.read()
    assert [event["url"] for event in collector.events] == [f"{address}/twin"]


def test_middleware_file_works_standalone(tmp_path: Path) -> None:
    shutil.copy(str(middleware.__file__), tmp_path / "views.py")
    bare = "import sys; sys.path.insert(0, '.'); from views import CopydeskASGI, CopydeskWSGI"
    subprocess.run([sys.executable, "-I", "-S", "-c", bare], cwd=tmp_path, check=True)


@pytest.mark.deep
def test_a_page_that_an_agent_reads_is_exported_as_an_ai_visitor(service: Service) -> None:
    key = service.new_key(scopes=["events"])
    app = CopydeskWSGI(wsgi_site, service.url, service.project.id, key, address_header="X-Real-IP")
    for number, agent in enumerate((READER["User-Agent"], READER["User-Agent"], BROWSER)):
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/guide/setup", "wsgi.url_scheme": "https"}
        told = {"HTTP_HOST": "docs.example.org", "HTTP_USER_AGENT": agent, "HTTP_X_REAL_IP": f"203.0.113.{number}"}
        list(app({**environ, **told}, lambda status, headers: None))
    app.views.queue.close()
    found = service.http.get(f"/v1/analytics/{service.project.id}/visitors").json()
    assert found["visitors"] == [{"path": "/guide/setup", "human": 1, "ai": 2, "total": 3}]
