"""The stdio transport: `copydesk mcp`, which an assistant starts on the user's machine and which calls the API."""

import logging
from collections.abc import Collection

import anyio
import httpx2 as httpx
from mcp.server.stdio import stdio_server

from copydesk.core.accounts.api_keys import SCOPES
from copydesk.mcp.api import Api, ApiRefused
from copydesk.mcp.server import BuildServer, build_server

TIMEOUT_SECONDS = 30


def run_stdio_server(url: str, api_key: str, project_id: str, build: BuildServer = build_server) -> None:
    """Serves MCP on standard input and output until the input ends."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    anyio.run(_serve, url, api_key, project_id, build)


async def _serve(url: str, api_key: str, project_id: str, build: BuildServer) -> None:
    headers = {"Authorization": f"Bearer {api_key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS) as http:
        api = Api(http, project_id)

        async def load_scopes() -> Collection[str]:
            """Returns the key's scopes; all of them while the service cannot be reached, because calls will say so."""
            try:
                scopes: list[str] = (await api.get(f"{api.jobs_path}/key"))["scopes"]
            except ApiRefused as error:
                if error.is_temporary:
                    return SCOPES
                raise
            return scopes

        server = build(api, load_scopes)
        async with stdio_server() as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())
