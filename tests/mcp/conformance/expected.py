"""Which scenarios of the conformance suite pass, and why the others do not apply.

There are two servers on each transport: Copydesk's own, and the same with the suite's tools, resources and prompts.
"""

from typing import Literal

ServerKind = Literal["copydesk", "suite"]
TransportKind = Literal["http", "stdio"]
Revision = Literal["2025-11-25", "2026-07-28"]

CONTENT = {
    "completion-complete": "prompt test_prompt_with_arguments",
    "json-schema-2020-12": "tool json_schema_2020_12_tool",
    "prompts-get-embedded-resource": "prompt test_prompt_with_embedded_resource",
    "prompts-get-simple": "prompt test_simple_prompt",
    "prompts-get-with-args": "prompt test_prompt_with_arguments",
    "prompts-get-with-image": "prompt test_prompt_with_image",
    "resources-read-binary": "resource test://static-binary",
    "resources-read-text": "resource test://static-text",
    "resources-templates-read": "resource test://template/{id}/data",
    "tools-call-audio": "tool test_audio_content",
    "tools-call-embedded-resource": "tool test_embedded_resource",
    "tools-call-error": "tool test_error_handling",
    "tools-call-image": "tool test_image_content",
    "tools-call-mixed-content": "tool test_multiple_content_types",
    "tools-call-simple-text": "tool test_simple_text",
    "tools-call-with-progress": "tool test_tool_with_progress",
}
"""Scenarios of both revisions that need a tool, resource or prompt which only the suite's server has."""

REQUESTS_OF_THE_SERVER = {
    "elicitation-sep1034-defaults": "tool test_elicitation_sep1034_defaults",
    "elicitation-sep1330-enums": "tool test_elicitation_sep1330_enums",
    "tools-call-elicitation": "tool test_elicitation",
    "tools-call-sampling": "tool test_sampling",
}
"""Scenarios of 2025-11-25 whose tools ask the client. Over HTTP, its answer is another request of the same session."""

CAPABILITIES = {
    "logging-set-level": "capability logging",
    "tools-call-with-logging": "capability logging and tool test_tool_with_logging",
    "resources-subscribe": "capability resources.subscribe",
    "resources-unsubscribe": "capability resources.subscribe",
}
"""Scenarios of 2025-11-25 about capabilities that Copydesk does not declare."""

INPUTS = {
    "input-required-result-basic-elicitation": "tool test_input_required_result_elicitation",
    "input-required-result-basic-list-roots": "tool test_input_required_result_list_roots",
    "input-required-result-basic-sampling": "tool test_input_required_result_sampling",
    "input-required-result-capability-check": "tool test_input_required_result_capabilities",
    "input-required-result-ignore-extra-params": "tool test_input_required_result_elicitation",
    "input-required-result-missing-input-response": "tool test_input_required_result_elicitation",
    "input-required-result-multi-round": "tool test_input_required_result_multi_round",
    "input-required-result-multiple-input-requests": "tool test_input_required_result_multiple_inputs",
    "input-required-result-non-tool-request": "prompt test_input_required_result_prompt",
    "input-required-result-request-state": "tool test_input_required_result_request_state",
    "input-required-result-result-type": "tool test_input_required_result_elicitation",
    "input-required-result-tampered-state": "tool test_input_required_result_tampered_state",
}
"""Scenarios of 2026-07-28 whose tools ask the client by their result."""

STATELESS = {
    "server-stateless": "tools test_missing_capability, test_streaming_elicitation and test_logging_tool",
    "http-custom-header-server-validation": "a tool with x-mcp-header",
}

TASKS = dict.fromkeys(
    (
        "tasks-capability-negotiation",
        "tasks-dispatch-and-envelope",
        "tasks-lifecycle",
        "tasks-mrtr-composition",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-request-state-removal",
        "tasks-required-task-error",
        "tasks-status-notifications",
        "tasks-wire-fields",
    ),
    "extension io.modelcontextprotocol/tasks",
)
SKILLS = frozenset({"sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest"})
"""Scenarios of an extension that belongs to neither revision. Copydesk does not declare it."""

NOT_RESUMABLE = {"server-sse-polling": "streams that can be resumed, and the tool test_reconnection"}
"""A scenario of 2025-11-25 that is not required: a server may do without. Copydesk keeps no events of ended streams."""

ABOUT_HTTP = "HTTP: the suite tests the bridge, not the server on standard input and output"
HTTP_SCENARIOS: dict[Revision, dict[str, str]] = {
    "2025-11-25": {"dns-rebinding-protection": ABOUT_HTTP},
    "2026-07-28": {
        "dns-rebinding-protection": ABOUT_HTTP,
        "http-header-validation": ABOUT_HTTP,
        "http-custom-header-server-validation": ABOUT_HTTP,
        "server-stateless": f"{ABOUT_HTTP}; only the checks of HTTP fail",
    },
}
HTTP_CHECKS = r"sep-2575-(?:http-server-.+|missing-capability-http-400)"
"""The checks of `server-stateless` that read the status or the headers of HTTP."""

BASICS: dict[Revision, frozenset[str]] = {
    "2025-11-25": frozenset(
        {
            "ping",
            "prompts-list",
            "resources-list",
            "server-initialize",
            "server-session-lifecycle",
            "server-sse-multiple-streams",
            "tools-list",
        }
    ),
    "2026-07-28": frozenset(
        {
            "caching",
            "input-required-result-unsupported-methods",
            "input-required-result-validate-input",
            "prompts-list",
            "resources-list",
            "sep-2164-resource-not-found",
            "server-sse-multiple-streams",
            "tools-list",
        }
    ),
}
"""Scenarios that need nothing of the suite, on either transport. The bridge to stdio turns a process into a session."""
HTTP_BASICS: dict[Revision, frozenset[str]] = {
    "2025-11-25": frozenset({"dns-rebinding-protection"}),
    "2026-07-28": frozenset({"dns-rebinding-protection", "http-header-validation"}),
}


def list_passed(server: ServerKind, transport: TransportKind, revision: Revision) -> set[str]:
    """Returns the scenarios that pass."""
    passed = set(BASICS[revision]) | (HTTP_BASICS[revision] if transport == "http" else set())
    if server == "copydesk":
        return passed
    if revision == "2026-07-28":
        return passed | CONTENT.keys() | INPUTS.keys() | (STATELESS.keys() if transport == "http" else set())
    return passed | CONTENT.keys() | CAPABILITIES.keys() | REQUESTS_OF_THE_SERVER.keys()


def list_not_applicable(server: ServerKind, transport: TransportKind, revision: Revision) -> dict[str, str]:
    """Returns the other scenarios, each with what it needs."""
    missing: dict[str, str] = {}
    if server == "copydesk" and revision == "2025-11-25":
        missing = CONTENT | CAPABILITIES | REQUESTS_OF_THE_SERVER
    elif server == "copydesk":
        missing = CONTENT | INPUTS | STATELESS
    missing = missing | (TASKS if revision == "2026-07-28" else NOT_RESUMABLE)
    return missing | (HTTP_SCENARIOS[revision] if transport == "stdio" else {})
