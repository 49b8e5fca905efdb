"""An export reads ClickHouse's answer as a server sends it: in chunks, which may end too early."""

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from copydesk.analytics.stores.base import ALL_DAYS
from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.export_format import ExportFormat
from copydesk.core.errors import StoreUnavailable
from copydesk.transfer.export.run import ExportRequest, export_project
from copydesk.transfer.progress import SilentProgress
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view
from tests.support.clickhouse import new_database
from tests.support.clickhouse_store import main_database

pytestmark = pytest.mark.deep

CHUNK_BYTES = 100
EXPORT_PARAMETER = "output_format_parquet_row_group_size"
"""A setting that only exports send."""


class ChunkingProxy(ThreadingHTTPServer):
    """Forwards requests to ClickHouse, and sends the answers to exports in chunks; cuts the first ones short."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), ChunkingHandler)
        self.target = (host, port)
        self.cuts_left = 0
        self.export_count = 0


class ChunkingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChunkingProxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection(*self.server.target, timeout=60)
        connection.request(self.command, self.path, body, dict(self.headers))
        response = connection.getresponse()
        content = response.read()
        is_export = EXPORT_PARAMETER in self.path
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if not is_export:
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._send_chunks(content)

    def do_GET(self) -> None:
        self.do_POST()

    def _send_chunks(self, content: bytes) -> None:
        self.server.export_count += 1
        is_cut = self.server.cuts_left > 0
        end = len(content) // 2 if is_cut else len(content)
        for start in range(0, end, CHUNK_BYTES):
            chunk = content[start : min(start + CHUNK_BYTES, end)]
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        if is_cut:
            self.server.cuts_left -= 1
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.fixture
def url() -> str:
    return new_database()


@pytest.fixture
def proxy(url: str) -> Iterator[ChunkingProxy]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    with ChunkingProxy(parts.hostname, parts.port) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def store(url: str, proxy: ChunkingProxy, tmp_path: Path) -> Iterator[ClickHouseStore]:
    parts = urlsplit(url)
    credentials = parts.netloc.rpartition("@")[0]
    through_proxy = parts._replace(netloc=f"{credentials}@127.0.0.1:{proxy.server_port}".removeprefix("@"))
    main = main_database(tmp_path)
    direct = ClickHouseStore(url, main)
    log_and_fold(direct, *(make_view(f"/{number}", visitor=number + 1) for number in range(200)))
    opened = ClickHouseStore(urlunsplit(through_proxy), main)
    yield opened
    opened.close()
    main.close()


@pytest.mark.parametrize("file_format", ExportFormat)
def test_answer_in_chunks_is_the_whole_file(
    store: ClickHouseStore, proxy: ChunkingProxy, tmp_path: Path, file_format: ExportFormat
) -> None:
    chunked, whole = tmp_path / "chunked", tmp_path / "whole"
    assert store.export_day("docs", "visitors", MONDAY, file_format, chunked) == 200
    assert proxy.export_count == 1
    content = chunked.read_bytes()
    if file_format is ExportFormat.PARQUET:
        assert content[:4] == content[-4:] == b"PAR1"
    else:
        lines = content.decode().splitlines()
        assert len(lines) == 200 + (file_format is ExportFormat.CSV)
    assert store.export_day("docs", "visitors", MONDAY, file_format, whole) == 200


def test_answer_that_ends_too_early_is_an_error_and_no_finished_file(
    store: ClickHouseStore, proxy: ChunkingProxy, tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    request = ExportRequest("docs", ("raw", "visitors"), ExportFormat.JSONL, ALL_DAYS)
    proxy.cuts_left = 1
    with pytest.raises(StoreUnavailable):
        export_project(store, request, folder, SilentProgress())
    assert [file.name for file in folder.iterdir() if file.name.startswith(("raw", "visitors"))] == []
    result = export_project(store, request, folder, SilentProgress())
    assert [(entry.dataset, entry.rows) for entry in result.written] == [("raw", 200), ("visitors", 200)]
    assert [len(file.read_text().splitlines()) for file in folder.glob("*-2*.jsonl")] == [200, 200]
    assert not list(folder.glob(".*.unfinished"))
