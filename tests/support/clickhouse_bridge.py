"""ClickHouse's HTTP interface over its engine in this process, as far as our client uses it.

tests.support.clickhouse starts it; it ends when the other end of its standard input closes.
"""

import gzip
import json
import os
import re
import sys
import threading
from base64 import b64decode
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import lz4.frame
from chdb.session import Session as Untyped

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NON_SETTING_PARAMETERS = {
    "query", "database", "user", "password", "session_id", "session_timeout", "session_check", "query_id", "quota_key",
    "compress", "decompress", "wait_end_of_query", "buffer_size", "client_protocol_version", "default_format", "role",
    "send_progress_in_http_headers", "http_headers_progress_interval_ms", "enable_http_compression",
    "cancel_http_readonly_queries_on_client_close",
}  # fmt: skip
"""Parameters that only the HTTP interface reads, or that have no meaning here."""
INSERT_PATTERN = re.compile(rb"(?is)\s*(insert\s+into\s+.*?)\sformat\s+(\w+)\s?(.*)")
MAX_FIELD_BYTES, MAX_URL_BYTES = 131_072, 8_192
"""ClickHouse's limit for a field, and the usual limit of load balancers for an address."""
HTTP_STATUS_BY_ERROR_CODE = {"60": 404, "81": 404, "516": 403, "164": 403, "62": 400}
COMPRESSIONS = {
    "lz4": (lz4.frame.compress, lz4.frame.decompress),
    "zstd": (zstd.compress, zstd.decompress),
    "gzip": (gzip.compress, gzip.decompress),
}


Session: Any = Untyped


class QueryFailed(Exception):
    """An error response in ClickHouse's format."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    folder: ClassVar[str]
    password: ClassVar[str]

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/ping":
            self._send_response(200, b"Ok.\n")
        else:
            self.do_POST()

    def do_POST(self) -> None:
        body = self._read_body()
        try:
            self._authorize()
            if len(self.path) > MAX_URL_BYTES:
                raise QueryFailed("Code: 1000. DB::Exception: URI Too Long. (POCO_EXCEPTION)")
            result, headers = self._run_query(body)
        except Exception as error:
            text = str(error)
            code = match[1] if (match := re.search(r"Code: (\d+)", text)) else "1002"
            self._send_response(
                HTTP_STATUS_BY_ERROR_CODE.get(code, 500), text.encode(), {"X-ClickHouse-Exception-Code": code}
            )
        else:
            self._send_response(200, result, headers)

    def _authorize(self) -> None:
        kind, _, credentials = self.headers.get("Authorization", "").partition(" ")
        user, _, password = b64decode(credentials).decode().partition(":") if kind == "Basic" else ("default", "", "")
        if (user, password) != ("default", self.password):
            raise QueryFailed(f"Code: 516. DB::Exception: {user}: Authentication failed. (AUTHENTICATION_FAILED)")

    def _run_query(self, body: bytes) -> tuple[bytes, dict[str, str]]:
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        query = parameters.get("query", "").encode()
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            form: Any = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
            for part in form.get_payload():
                name, value = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
                if name == "query":
                    query = value
                else:
                    parameters[name] = value.decode()
            body = b""
        if any(len(value) > MAX_FIELD_BYTES for name, value in parameters.items() if name != "query"):
            raise QueryFailed("Code: 1000. DB::Exception: Field value too long. (POCO_EXCEPTION)")
        query = query + b"\n" + body if query and body else query or body
        with Session(self.folder) as session:
            if database := parameters.get("database"):
                session.query(f"USE `{database}`")
            if settings := {
                k: v for k, v in parameters.items() if k not in NON_SETTING_PARAMETERS and not k.startswith("param_")
            }:
                session.query(
                    "SET " + ", ".join(f"{name} = {quote_identifier(value)}" for name, value in settings.items())
                )
            query_parameters = {
                name.removeprefix("param_"): value for name, value in parameters.items() if name.startswith("param_")
            }
            match = INSERT_PATTERN.fullmatch(query)
            if match and not re.match(rb"(?i)\s*select|\s*with", match[3][:10]) and match[2].lower() != b"values":
                result, rows_written, result_rows = b"", insert_rows(session, *match.groups()), 0
            else:
                answer: Any = session.query(query.decode(), "TabSeparated", params=query_parameters)
                result, rows_written, result_rows = answer.bytes() or b"", answer.rows_written(), answer.rows_read()
        summary = {"written_rows": str(rows_written), "result_rows": str(result_rows)}
        return result, {"X-ClickHouse-Summary": json.dumps(summary)}

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            body = b"".join(parts)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        packing = self.headers.get("Content-Encoding", "")
        return bytes(COMPRESSIONS[packing][1](body)) if packing in COMPRESSIONS else body

    def _send_response(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        accepted = [name.strip() for name in self.headers.get("Accept-Encoding", "").split(",")]
        packing = next((name for name in accepted if name in COMPRESSIONS), None)
        if "enable_http_compression=1" in self.path and packing and body:
            body = COMPRESSIONS[packing][0](body)
            headers = {**(headers or {}), "Content-Encoding": packing}
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def insert_rows(session: Any, statement: bytes, kind: bytes, data: bytes) -> int:
    """Inserts rows that came with the statement, in any format."""
    inserter = session._conn.send_insert(statement.decode(), kind.decode())
    if data:
        inserter.append(data)
    return int(inserter.finish().rows_written)


def quote_identifier(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def main(folder: str, port: str, password: str) -> None:
    Handler.folder, Handler.password = folder, password
    engine = Session(folder)  # kept open: the engine lives as long as one session
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)  # noqa: T201 - for whoever started it
    sys.stdin.read()
    server.shutdown()
    engine.close()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
