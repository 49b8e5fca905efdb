"""Copydesk's own MCP server with the tools, resources and prompts of the conformance suite added.

The transports, the request gate and the error handling are Copydesk's. The suite can so test them with tools that ask,
log and return images, which Copydesk's own tools do not.
"""

import os
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from copydesk.mcp.api import Api
from copydesk.mcp.server import LoadScopes, build_server
from copydesk.mcp.stdio import run_stdio_server
from tests.mcp.conformance import suite_content
from tests.mcp.conformance.suite_inputs import PROMPT_NAME, get_input_prompt
from tests.mcp.conformance.suite_tools import LISTEN, TOOLS, Context, Result

STATE_SECURITY = RequestStateSecurity.ephemeral()
ServerOfCopydesk = Server[dict[str, Any]]


def build_suite_server(api: Api, load_scopes: LoadScopes) -> ServerOfCopydesk:
    server = build_server(api, load_scopes)
    server.middleware.append(RequestStateBoundary(STATE_SECURITY, default_audience=server.name))
    _add_tools(server)
    _add_resources(server)
    _add_prompts(server)
    _add_capabilities(server)
    return server


def _add_tools(server: ServerOfCopydesk) -> None:
    list_own, call_own = _get_handlers(server, "tools/list", "tools/call")

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        own: types.ListToolsResult = await list_own(ctx, params)
        return own.model_copy(update={"tools": [*own.tools, *(tool.description for tool in TOOLS.values())]})

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Result:
        if params.name in TOOLS:
            return await TOOLS[params.name].run(ctx, params)
        result: Result = await call_own(ctx, params)
        return result

    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)


def _add_resources(server: ServerOfCopydesk) -> None:
    list_own, list_own_templates, read_own = _get_handlers(
        server, "resources/list", "resources/templates/list", "resources/read"
    )

    async def list_resources(ctx: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
        own: types.ListResourcesResult = await list_own(ctx, params)
        return own.model_copy(update={"resources": [*own.resources, *suite_content.RESOURCES]})

    async def list_templates(ctx: Context, params: types.PaginatedRequestParams) -> types.ListResourceTemplatesResult:
        own: types.ListResourceTemplatesResult = await list_own_templates(ctx, params)
        return own.model_copy(update={"resource_templates": [*own.resource_templates, *suite_content.TEMPLATES]})

    async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        own: types.ReadResourceResult = suite_content.read_resource(str(params.uri)) or await read_own(ctx, params)
        return own

    server.add_request_handler("resources/list", types.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)


def _add_prompts(server: ServerOfCopydesk) -> None:
    list_own, get_own, complete_own = _get_handlers(server, "prompts/list", "prompts/get", "completion/complete")

    async def list_prompts(ctx: Context, params: types.PaginatedRequestParams) -> types.ListPromptsResult:
        own: types.ListPromptsResult = await list_own(ctx, params)
        return own.model_copy(update={"prompts": [*own.prompts, *suite_content.PROMPTS]})

    async def get_prompt(
        ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        if params.name == PROMPT_NAME:
            return get_input_prompt(params)
        if params.name in suite_content.BUILD_PROMPT:
            return suite_content.build_prompt(params.name, params.arguments or {})
        own: types.GetPromptResult = await get_own(ctx, params)
        return own

    async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        if isinstance(params.ref, types.PromptReference) and params.ref.name in suite_content.BUILD_PROMPT:
            values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
            return types.CompleteResult(completion=types.Completion(values=values))
        own: types.CompleteResult = await complete_own(ctx, params)
        return own

    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)


def _add_capabilities(server: ServerOfCopydesk) -> None:
    """Adds the capabilities that Copydesk does not declare: logging and subscriptions."""

    async def accept(ctx: Context, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, accept)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, accept)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, accept)
    server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, LISTEN)


def _get_handlers(server: ServerOfCopydesk, *methods: str) -> list[Any]:
    entries = [server.get_request_handler(method) for method in methods]
    return [entry.handler for entry in entries if entry is not None]


if __name__ == "__main__":
    run_stdio_server(
        os.environ["COPYDESK_URL"],
        os.environ["COPYDESK_API_KEY"],
        os.environ["COPYDESK_PROJECT"],
        build_suite_server,
    )
