"""Undocumented parts of libraries that Copydesk uses are still there, and each such library has an upper bound."""

import re
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import typer._completion_classes
import typer._completion_shared
from fastapi import APIRouter, FastAPI
from mcp.server.streamable_http import StreamableHTTPServerTransport
from starlette.routing import Route
from typer.core import TyperArgument, TyperGroup
from uvicorn import Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from copydesk.analytics.stores.duckdb.metadata_blocks import (
    BLOCK_SIZE,
    BLOCK_SIZE_STARTS,
    FILE_MARK,
    FILE_MARK_START,
)
from tests.support.packages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BOUNDED = ("duckdb", "fastapi", "mcp", "typer", "uvicorn")

USED_PARTS: list[tuple[Any, str, str]] = [
    (HttpToolsProtocol, "_unset_keepalive_if_required", "copydesk/web/http/protocol.py parses what arrives by itself"),
    (HttpToolsProtocol, "send_400_response", "copydesk/web/http/protocol.py answers invalid HTTP with JSON"),
    (HttpToolsProtocol, "on_response_complete", "copydesk/web/http/protocol.py sets the deadline of the next request"),
    (Server, "on_tick", "copydesk/web/server.py checks the deadlines of connections"),
    (Server, "capture_signals", "copydesk/web/server.py handles signals until the worker has released its jobs"),
    (TyperArgument, "display_name_raw", "copydesk/cli/command_table.py shows arguments as FOLDER"),
    (TyperArgument, "get_usage_pieces", "copydesk/cli/command_table.py shows arguments as FOLDER"),
    (TyperArgument, "display_type_rich", "copydesk/cli/command_table.py hides the type of an argument"),
    (TyperGroup, "format_commands", "copydesk/cli/command_table.py groups the commands"),
    (typer._completion_classes, "completion_init", "copydesk/cli/__init__.py completes words"),
    (typer._completion_shared, "get_completion_script", "copydesk/cli/commands/setup/completion.py prints scripts"),
    (StreamableHTTPServerTransport, "is_terminated", "copydesk/mcp/http/sessions.py forgets sessions that have ended"),
    (StreamableHTTPServerTransport(None), "idle_scope", "copydesk/mcp/http/sessions.py ends sessions that are idle"),
]


def test_every_undocumented_part_exists() -> None:
    assert [use for owner, name, use in USED_PARTS if not hasattr(owner, name)] == []


def test_routes_of_a_router_serve_without_being_included() -> None:
    """`create_app` adds the routes of each router to the application's own."""
    router = APIRouter()
    router.get("/a")(lambda: None)
    app = FastAPI()
    app.router.routes += router.routes
    assert [route.path for route in app.routes if isinstance(route, Route)][-1] == "/a"


def test_duckdb_files_have_their_mark_and_block_size_where_they_are_read(tmp_path: Path) -> None:
    """`metadata_blocks.py` reads the headers of a DuckDB file by itself."""
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table a as select 1")
    data = path.read_bytes()
    assert data[FILE_MARK_START:].startswith(FILE_MARK)
    assert {BLOCK_SIZE.unpack_from(data, start) for start in BLOCK_SIZE_STARTS} == {(262_144,)}


def test_libraries_with_such_parts_have_an_upper_bound() -> None:
    lines = [*PROJECT["dependencies"], *(line for lines in PROJECT["optional-dependencies"].values() for line in lines)]
    for name in BOUNDED:
        (line,) = (each for each in lines if re.match(rf"{name}[<>=]", each))
        assert re.fullmatch(rf"{name}>=[\d.]+,<[\d.]+", line), line
