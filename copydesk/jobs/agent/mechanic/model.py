"""The mechanic as a model: one instruction per turn, then a summary. It keeps no state between turns."""

import asyncio
from collections.abc import Iterator

from copydesk.core.text.plurals import pluralize
from copydesk.core.text.truncation import truncate
from copydesk.jobs.agent.conversation import Conversation, Prompt, Reply, ToolCall, ToolResult, ToolResults
from copydesk.jobs.agent.mechanic import (
    add_fields,
    fix_formatting,
    link_plan,
    rename_heading,
    replace_text,
    table_values,
)
from copydesk.jobs.agent.mechanic.instructions import (
    AddField,
    AddRedirects,
    AddToNavigation,
    DeletePage,
    FixHeadings,
    FixLinks,
    Instruction,
    MovePage,
    NotUnderstood,
    RenameHeading,
    Replace,
    SetTableValue,
    TrimSpace,
)
from copydesk.jobs.agent.mechanic.parsing.prompt_parser import parse_prompt
from copydesk.jobs.agent.mechanic.plan import EditPlan, PageFolders, join_limited
from copydesk.jobs.agent.mechanic.structure import add_to_navigation, delete_page, move_page, redirect_missing
from copydesk.jobs.workspace.workspace import Workspace

NO_CHANGE_TITLE = "No change"
NOT_UNDERSTOOD_TITLE = "Not understood"
"""The title of a reply to a prompt that needs a language model. The workflow recognizes such a reply by it."""
MAX_TITLE_CHARS, MAX_SUMMARY_CHARS = 120, 20_000
ABILITIES = (
    "The built-in mechanic can replace a word or phrase, rename, move or delete a page with its links, add a page to "
    "the navigation, add redirects for missing pages, fix broken internal links, add missing front-matter fields, set "
    "a value in a table, change a heading with the links to it, remove trailing whitespace and fix heading levels."
)
MODEL_SETUP_HINT = (
    "To use one, set COPYDESK_MODEL, for example to openai:…, anthropic:…, google:…, or openai-compatible:… with "
    "COPYDESK_MODEL_URL, and restart Copydesk; or choose a model in the project's settings."
)


class Mechanic:
    name = "mechanic"

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        """Runs in a thread: a large repository takes seconds, and the worker must renew its lease meanwhile."""
        return await asyncio.to_thread(build_reply, conversation, workspace)


def build_reply(conversation: Conversation, workspace: Workspace) -> Reply:
    """Returns the next reply, which depends only on the conversation and the workspace."""
    prompt_number = sum(isinstance(entry, Prompt) for entry in conversation)
    latest_index = max((n for n, entry in enumerate(conversation) if isinstance(entry, Prompt)), default=None)
    if latest_index is None:
        return Reply()
    prompt = conversation[latest_index]
    later_entries = conversation[latest_index + 1 :]
    assert isinstance(prompt, Prompt)
    replies = [entry for entry in later_entries if isinstance(entry, Reply)]
    if any(call.name == "finish" for reply in replies for call in reply.calls):
        return Reply()
    instructions = parse_prompt(prompt.text, prompt.data, PageFolders(workspace).find)
    if isinstance(instructions, NotUnderstood):
        return _build_finish(prompt_number, 0, NOT_UNDERSTOOD_TITLE, _not_understood_message(instructions))
    texts: list[str] = []
    for number in range(_last_instruction_number(replies) + 1, len(instructions) + 1):
        plan = _build_plan(workspace, instructions[number - 1])
        texts.append("\n".join([f"I understood: {instructions[number - 1]}.", *plan.notes]))
        if plan.calls:
            return Reply(text="\n\n".join(texts), calls=_build_calls(prompt_number, number, plan))
    results = {
        result.call_id: result for entry in later_entries if isinstance(entry, ToolResults) for result in entry.results
    }
    return _build_finish(
        prompt_number,
        len(instructions) + 1,
        _build_title(instructions, replies, results),
        "\n\n".join([_build_summary(replies, results, texts), *_describe_further_files(workspace, replies, results)]),
    )


def _build_plan(workspace: Workspace, instruction: Instruction) -> EditPlan:
    match instruction:
        case Replace():
            return replace_text.plan_replacement(workspace, instruction)
        case MovePage():
            return move_page.plan_move(workspace, instruction)
        case DeletePage():
            return delete_page.plan_deletion(workspace, instruction)
        case AddToNavigation():
            return add_to_navigation.plan_nav_entry(workspace, instruction)
        case AddRedirects():
            return redirect_missing.plan_redirects(workspace, instruction)
        case FixLinks():
            return link_plan.plan_link_fixes(workspace, instruction)
        case AddField():
            return add_fields.plan_fields(workspace, instruction)
        case TrimSpace():
            return fix_formatting.plan_trimming(workspace, instruction)
        case FixHeadings():
            return fix_formatting.plan_headings(workspace, instruction)
        case RenameHeading():
            return rename_heading.plan_heading(workspace, instruction)
        case SetTableValue():
            return table_values.plan_table_value(workspace, instruction)


def _build_calls(prompt_number: int, number: int, plan: EditPlan) -> tuple[ToolCall, ...]:
    """Builds the tool calls of a plan.

    Each id contains the numbers of the prompt, the instruction and the call, so that the conversation shows which
    instructions are done.
    """
    return tuple(
        ToolCall(id=f"call-{prompt_number}-{number}-{n}", name=name, arguments=arguments)
        for n, (name, arguments) in enumerate(plan.calls, 1)
    )


def _instruction_number(call: ToolCall) -> int:
    return int(call.id.split("-")[2])


def _last_instruction_number(replies: list[Reply]) -> int:
    return max((_instruction_number(call) for reply in replies for call in reply.calls), default=0)


def _build_finish(prompt_number: int, number: int, title: str, summary: str) -> Reply:
    """Builds the last reply. It has no text, because the summary repeats what the replies before it said."""
    arguments = {"title": title, "summary": summary[:MAX_SUMMARY_CHARS]}
    return Reply(calls=(ToolCall(id=f"call-{prompt_number}-{number}-1", name="finish", arguments=arguments),))


def _build_title(instructions: list[Instruction], replies: list[Reply], results: dict[str, ToolResult]) -> str:
    done_numbers = sorted(
        {_instruction_number(call) for call, result in _pair_with_results(replies, results) if result.ok}
    )
    if not done_numbers:
        return NO_CHANGE_TITLE
    description = str(instructions[done_numbers[0] - 1])
    more = f", and {len(done_numbers) - 1} more" if len(done_numbers) > 1 else ""
    title = description[0].upper() + description[1:]
    return truncate(title, MAX_TITLE_CHARS) + more


def _build_summary(replies: list[Reply], results: dict[str, ToolResult], texts: list[str]) -> str:
    parts = []
    for reply in replies:
        pairs = list(_pair_with_results([reply], results))
        changed = [_describe_target(call) for call, result in pairs if result.ok]
        refused = [f"- {_describe_target(call)}: {result.text}" for call, result in pairs if not result.ok]
        parts.append(reply.text)
        if changed:
            parts.append(
                f"Changed {pluralize(len(set(changed)), 'file')}: {join_limited(list(dict.fromkeys(changed)))}."
            )
        if refused:
            parts.append("\n".join(["Refused:", *refused]))
        parts += [result.task_for_person for _, result in pairs if result.task_for_person]
    return "\n\n".join([*parts, *texts])


def _describe_further_files(
    workspace: Workspace, replies: list[Reply], results: dict[str, ToolResult]
) -> Iterator[str]:
    """Yields how many files changed in all, if calls changed more than the files that they name: moves update links."""
    calls = [call for call, result in _pair_with_results(replies, results) if result.ok]
    moved = {str(call.arguments.get("path")) for call in calls if call.name == "move"}
    changed = sorted(path for path, data in workspace.changes().items() if data is not None or path not in moved)
    if len(changed) > len({_describe_target(call) for call in calls if call.name != "finish"}):
        yield f"In all, {pluralize(len(changed), 'file')} changed: {join_limited(changed)}."


def _pair_with_results(replies: list[Reply], results: dict[str, ToolResult]) -> Iterator[tuple[ToolCall, ToolResult]]:
    for reply in replies:
        for call in reply.calls:
            if call.id in results:
                yield call, results[call.id]


def _describe_target(call: ToolCall) -> str:
    path = str(call.arguments.get("path", ""))
    return f"{path} → {call.arguments['to']}" if call.name == "move" else path


def _not_understood_message(instructions: NotUnderstood) -> str:
    part = truncate(instructions.text, 200)
    subject = f"“{part}”" if part else "An empty prompt"
    problem = f"{subject} needs a language model, and the model of this job is the built-in mechanic."
    word = f" It does not understand “{truncate(instructions.word, 50)}” here." if instructions.word else ""
    return f"{problem}{word} Nothing was changed. {MODEL_SETUP_HINT}\n\n{ABILITIES}"
