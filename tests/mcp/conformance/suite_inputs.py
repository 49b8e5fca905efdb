"""The suite's tools and prompt that ask the client for input and are called again with it (protocol 2026-07-28)."""

from typing import Any

import mcp_types as types

from tests.mcp.conformance.suite_tools import NAME_FORM, STRING, Context, Result, object_schema, suite_tool, text_result

PROMPT_NAME = "test_input_required_result_prompt"


def ask_user(message: str, form: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=form))


def ask_model(question: str, max_tokens: int = 100) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=question))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


def require(requests: dict[str, types.InputRequest], state: str | None = None) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def read_form(params: types.InputResponseRequestParams, name: str) -> dict[str, Any] | None:
    """Returns the content of a form that the user accepted, or None if it was not sent or not accepted."""
    response = (params.input_responses or {}).get(name)
    if not isinstance(response, types.ElicitResult) or response.action != "accept":
        return None
    return response.content or {}


@suite_tool()
async def test_input_required_result_elicitation(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Greets the user by name."""
    form = read_form(params, "user_name")
    if form is None or "name" not in form:
        return require({"user_name": ask_user("What is your name?", NAME_FORM)})
    return text_result(f"Hello, {form['name']}!")


@suite_tool()
async def test_streaming_elicitation(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Asks for input in its result, not by a request on the stream."""
    return require({"user_name": ask_user("What is your name?", NAME_FORM)})


@suite_tool()
async def test_input_required_result_sampling(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Returns what the client's model says."""
    response = (params.input_responses or {}).get("capital_question")
    if not isinstance(response, types.CreateMessageResult):
        return require({"capital_question": ask_model("What is the capital of France?")})
    return text_result(f"The model says: {response.content.text}")  # type: ignore[union-attr]


@suite_tool()
async def test_input_required_result_list_roots(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Returns the client's roots."""
    response = (params.input_responses or {}).get("client_roots")
    if not isinstance(response, types.ListRootsResult):
        return require({"client_roots": types.ListRootsRequest()})
    return text_result("Roots: " + ", ".join(str(root.uri) for root in response.roots))


@suite_tool()
async def test_input_required_result_request_state(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Confirms that its state came back."""
    if read_form(params, "confirm") is None or params.request_state != "asked":
        return require({"confirm": ask_user("Please confirm", object_schema(ok={"type": "boolean"}))}, "asked")
    return text_result("state-ok")


@suite_tool()
async def test_input_required_result_tampered_state(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Has a state that clients cannot change, because the middleware seals it."""
    if read_form(params, "confirm") is None or params.request_state != "sealed":
        return require({"confirm": ask_user("Please confirm", object_schema(ok={"type": "boolean"}))}, "sealed")
    return text_result("state-ok")


@suite_tool()
async def test_input_required_result_multiple_inputs(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Asks the user, the model and the client at once."""
    requests: dict[str, types.InputRequest] = {
        "user_name": ask_user("What is your name?", NAME_FORM),
        "greeting": ask_model("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(),
    }
    if requests.keys() - (params.input_responses or {}).keys():
        return require(requests, "all")
    return text_result("All inputs have arrived.")


@suite_tool()
async def test_input_required_result_multi_round(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Asks twice."""
    if params.request_state == "step2" and (form := read_form(params, "step2")) is not None:
        return text_result(f"Your color is {form.get('color')}.")
    if params.request_state == "step1" and read_form(params, "step1") is not None:
        return require(
            {"step2": ask_user("Step 2: What is your favorite color?", object_schema(color=STRING))}, "step2"
        )
    return require({"step1": ask_user("Step 1: What is your name?", NAME_FORM)}, "step1")


@suite_tool()
async def test_input_required_result_capabilities(ctx: Context, params: types.CallToolRequestParams) -> Result:
    """Asks only for what the client can do."""
    capabilities = ctx.session.client_capabilities or types.ClientCapabilities()
    requests: dict[str, types.InputRequest] = {}
    if capabilities.elicitation is not None:
        requests["user_name"] = ask_user("What is your name?", NAME_FORM)
    if capabilities.sampling is not None:
        requests["greeting"] = ask_model("Generate a greeting")
    return require(requests) if requests else text_result("The client can do nothing.")


def get_input_prompt(params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    form = read_form(params, "user_context")
    if form is None:
        question = ask_user("What context should the prompt use?", object_schema(context=STRING))
        return require({"user_context": question})
    content = types.TextContent(type="text", text=f"Use this context: {form.get('context')}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])
