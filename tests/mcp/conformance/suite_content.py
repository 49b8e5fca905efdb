"""The resources and prompts that the conformance suite reads."""

import json
import re
from collections.abc import Callable, Mapping

import mcp_types as types

from tests.mcp.conformance.suite_inputs import PROMPT_NAME
from tests.mcp.conformance.suite_tools import PNG, text_resource

TEMPLATE_PATTERN = re.compile(r"test://template/([^/]+)/data")
RESOURCES = [
    types.Resource(uri="test://static-text", name="static-text", description="Text.", mime_type="text/plain"),
    types.Resource(uri="test://static-binary", name="static-binary", description="An image.", mime_type="image/png"),
]
TEMPLATES = [
    types.ResourceTemplate(
        uri_template="test://template/{id}/data", name="template", description="Data.", mime_type="application/json"
    )
]


def read_resource(uri: str) -> types.ReadResourceResult | None:
    """Returns a resource of the suite, or None if it has none with this URI."""
    if uri == "test://static-binary":
        image = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG.data)
        return types.ReadResourceResult(contents=[image])
    if uri == "test://static-text":
        mime_type, text = "text/plain", "This is the content of the static text resource."
    elif match := TEMPLATE_PATTERN.fullmatch(uri):
        data = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
        mime_type, text = "application/json", json.dumps(data)
    else:
        return None
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)])


def describe_prompt(name: str, *arguments: str) -> types.Prompt:
    return types.Prompt(
        name=name,
        description=f"Prompt {name} of the suite.",
        arguments=[types.PromptArgument(name=each, description=each, required=True) for each in arguments],
    )


PROMPTS = [
    describe_prompt("test_simple_prompt"),
    describe_prompt("test_prompt_with_arguments", "arg1", "arg2"),
    describe_prompt("test_prompt_with_embedded_resource", "resourceUri"),
    describe_prompt("test_prompt_with_image"),
    describe_prompt(PROMPT_NAME),
]
Contents = list[types.ContentBlock | str]
BUILD_PROMPT: dict[str, Callable[[Mapping[str, str]], Contents]] = {
    "test_simple_prompt": lambda values: ["This is a simple prompt for testing."],
    "test_prompt_with_arguments": lambda values: [
        f"Prompt with arguments: arg1='{values['arg1']}', arg2='{values['arg2']}'"
    ],
    "test_prompt_with_embedded_resource": lambda values: [
        text_resource(values["resourceUri"], "text/plain", "Embedded resource content for testing."),
        "Please process the embedded resource above.",
    ],
    "test_prompt_with_image": lambda values: [PNG, "Please analyze the image above."],
}


def build_prompt(name: str, values: Mapping[str, str]) -> types.GetPromptResult:
    contents = [
        types.TextContent(type="text", text=each) if isinstance(each, str) else each
        for each in BUILD_PROMPT[name](values)
    ]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=each) for each in contents])
