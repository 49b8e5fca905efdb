"""Prompts: the project's prompt templates. A client offers them as commands that start a job.

Because they start jobs, only a key with the scope `write` sees them.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from copydesk.mcp.tools.tool import ToolCall
from copydesk_client.shapes import Template, TemplateField

SCOPE = "write"
"""The scope that a key needs to see prompts. The API requires it for previews and for jobs."""
NAME_PATTERN = re.compile(r"[a-z0-9-]{1,60}")
REQUEST = (
    "Start a documentation job in Copydesk: call create_job with the text below as its prompt, unchanged. Then call "
    "wait_for_job until finished is true, and report what changed, with the link to the pull request (prLink)."
)


class PromptNotFound(Exception):
    """There is no template with this name. The message names it."""


async def list_prompts(call: ToolCall, scopes: Collection[str]) -> list[Template]:
    """Returns the project's templates and then the built-in ones, or none if the key cannot start jobs."""
    if SCOPE not in scopes:
        return []
    templates: list[Template] = (await call.api.get(f"{call.api.jobs_path}/templates"))["templates"]
    return templates


async def load_template(call: ToolCall, name: str) -> Template:
    template: Template = await call.api.get(_template_path(call, name))
    return template


async def render_prompt(call: ToolCall, name: str, values: Mapping[str, str]) -> str:
    """Returns the request to start a job with this template and these values. The API names each invalid value."""
    body: dict[str, Any] = await call.api.post(f"{_template_path(call, name)}/preview", {"fields": dict(values)})
    return f"{REQUEST}\n\n{body['prompt']}"


def describe_field(field: TemplateField) -> str:
    """Returns the label of a field, its default and its choices."""
    parts = [field["label"]]
    if field["choices"]:
        parts.append(f"one of: {', '.join(field['choices'])}")
    if field["default"]:
        parts.append(f"default: {field['default']}")
    return "; ".join(parts)


def is_required(field: TemplateField) -> bool:
    """Returns whether a value must be given: a required field with a default is never missing."""
    return field["required"] and not field["default"]


def _template_path(call: ToolCall, name: str) -> str:
    if not NAME_PATTERN.fullmatch(name):
        raise PromptNotFound(f"Unknown prompt: {name[:100]}")
    return f"{call.api.jobs_path}/templates/{name}"
