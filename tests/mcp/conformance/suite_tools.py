"""The tools that the official conformance suite calls, as its scenarios describe them. Only tests serve them."""

import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[dict[str, Any], Any]
Result = types.CallToolResult | types.InputRequiredResult
ToolFunction = Callable[[Context, types.CallToolRequestParams], Awaitable[Result]]


@dataclass(frozen=True)
class SuiteTool:
    description: types.Tool
    run: ToolFunction


TOOLS: dict[str, SuiteTool] = {}
CHANGES = InMemorySubscriptionBus()
LISTEN = ListenHandler(CHANGES)
"""Serves `subscriptions/listen`. All servers of this process share it, because each HTTP request has its own server."""
STEP_SECONDS = 0.05


def suite_tool(schema: dict[str, Any] | None = None) -> Callable[[ToolFunction], ToolFunction]:
    """Adds a function to the tools, under its name and with its docstring."""

    def add(function: ToolFunction) -> ToolFunction:
        name: str = function.__name__
        description = (function.__doc__ or name).strip()
        tool = types.Tool(name=name, description=description, input_schema=schema or object_schema())
        TOOLS[name] = SuiteTool(tool, function)
        return function

    return add


def object_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of an object that has all these properties."""
    return {"type": "object", "properties": properties} | ({"required": list(properties)} if properties else {})


STRING = {"type": "string"}
NAME_FORM = object_schema(name=STRING)


def text_result(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def text_resource(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(type="resource", resource=contents)


def encode_png() -> str:
    """Returns an image of one red pixel, as Base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")
    return base64.b64encode(image).decode()


def encode_wav() -> str:
    """Returns a sound of one silent sample, as Base64."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", 1) + b"\x80"
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


PNG = types.ImageContent(type="image", data=encode_png(), mime_type="image/png")


@suite_tool()
async def test_simple_text(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Returns text."""
    return text_result("This is a simple text response for testing.")


@suite_tool()
async def test_image_content(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Returns an image."""
    return types.CallToolResult(content=[PNG])


@suite_tool()
async def test_audio_content(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Returns a sound."""
    return types.CallToolResult(content=[types.AudioContent(type="audio", data=encode_wav(), mime_type="audio/wav")])


@suite_tool()
async def test_embedded_resource(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Returns a resource."""
    return types.CallToolResult(
        content=[text_resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
    )


@suite_tool()
async def test_multiple_content_types(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Returns text, an image and a resource."""
    data = json.dumps({"test": "data", "value": 123}, separators=(",", ":"))
    text = types.TextContent(type="text", text="Multiple content types test:")
    resource = text_resource("test://mixed-content-resource", "application/json", data)
    return types.CallToolResult(content=[text, PNG, resource])


@suite_tool()
async def test_error_handling(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Returns an error."""
    text = types.TextContent(type="text", text="This tool intentionally returns an error for testing")
    return types.CallToolResult(content=[text], is_error=True)


@suite_tool()
async def test_tool_with_progress(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Reports progress in three steps."""
    for progress in (0, 50, 100):
        await ctx.session.report_progress(progress, 100)
        await anyio.sleep(STEP_SECONDS)
    return text_result("Progress was reported.")


@suite_tool()
async def test_tool_with_logging(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Sends three log messages."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await send_log(ctx, message)
        await anyio.sleep(STEP_SECONDS)
    return text_result("Messages were logged.")


@suite_tool()
async def test_logging_tool(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Sends a log message, which must reach only clients that asked for it."""
    await send_log(ctx, "Do not tell")
    return text_result("A message was logged.")


async def send_log(ctx: Context, message: str) -> None:
    await ctx.session.send_log_message("info", message, related_request_id=ctx.request_id)


@suite_tool(object_schema(prompt=STRING))
async def test_sampling(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Asks the client's model."""
    question = types.TextContent(type="text", text=(params.arguments or {})["prompt"])
    reply = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=question)], max_tokens=100, related_request_id=ctx.request_id
    )
    return text_result(f"LLM response: {reply.content.text}")  # type: ignore[union-attr]


@suite_tool(object_schema(message=STRING))
async def test_elicitation(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Asks the user for a name and an address."""
    form = object_schema(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    reply = await ctx.session.elicit_form((params.arguments or {})["message"], form, ctx.request_id)
    return text_result(f"User response: action={reply.action}, content={json.dumps(reply.content)}")


DEFAULTS_FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}


def make_choices(*titles: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


OPTIONS = ["option1", "option2", "option3"]
CHOICES_FORM = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": make_choices("First Option", "Second Option", "Third Option"),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": make_choices("First Choice", "Second Choice", "Third Choice")},
        },
    },
}


@suite_tool()
async def test_elicitation_sep1034_defaults(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Asks the user to fill in a form with defaults."""
    reply = await ctx.session.elicit_form("Please review the values", DEFAULTS_FORM, ctx.request_id)
    return text_result(f"Elicitation completed: action={reply.action}, content={json.dumps(reply.content)}")


@suite_tool()
async def test_elicitation_sep1330_enums(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Asks the user to choose, with each kind of choice."""
    reply = await ctx.session.elicit_form("Please choose", CHOICES_FORM, ctx.request_id)
    return text_result(f"Elicitation completed: action={reply.action}, content={json.dumps(reply.content)}")


ADDRESS_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "address", "type": "object", "properties": {"street": STRING, "city": STRING}}},
    "properties": {"name": STRING, "address": {"$ref": "#/$defs/address"}, "kind": STRING, "email": STRING},
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["email"]}]}],
    "if": {"properties": {"kind": {"const": "person"}}},
    "then": {"required": ["name"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@suite_tool(ADDRESS_SCHEMA)
async def json_schema_2020_12_tool(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Has a schema with keywords that a server could lose."""
    return text_result("The schema was listed.")


@suite_tool(object_schema(region={"type": "string", "x-mcp-header": "Region"}))
async def test_header_parameter(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Has an argument that clients repeat in a header."""
    return text_result(f"The region is {(params.arguments or {})['region']}.")


@suite_tool()
async def test_missing_capability(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Needs a client that has a model."""
    required = types.ClientCapabilities(sampling=types.SamplingCapability())
    if not ctx.session.check_client_capability(required):
        data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=required)
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs the capability sampling.",
            data.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
    return text_result("The client has a model.")


@suite_tool()
async def test_trigger_tool_change(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Tells subscribers that the list of tools changed."""
    await CHANGES.publish(ToolsListChanged())
    return text_result("Subscribers were told.")


@suite_tool()
async def test_trigger_prompt_change(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Tells subscribers that the list of prompts changed."""
    await CHANGES.publish(PromptsListChanged())
    return text_result("Subscribers were told.")
