"""The mechanic as a model: one instruction a turn, then a summary. It keeps nothing between turns."""

import asyncio
from collections.abc import Iterator

from copydesk.jobs.agent.conversation import Conversation, Observed, Prompt, Reply, ToolCall, ToolResult
from copydesk.jobs.agent.mechanic import (
    add_fields as fields,
)
from copydesk.jobs.agent.mechanic import (
    fix_formatting as tidying,
)
from copydesk.jobs.agent.mechanic import (
    fix_links as links,
)
from copydesk.jobs.agent.mechanic import (
    move_page as moving,
)
from copydesk.jobs.agent.mechanic import (
    replace_text as replacing,
)
from copydesk.jobs.agent.mechanic.instructions import (
    AddField,
    FixHeadings,
    FixLinks,
    Instruction,
    MovePage,
    NotUnderstood,
    Replace,
    TrimSpace,
)
from copydesk.jobs.agent.mechanic.plan import Plan, counted, listed
from copydesk.jobs.agent.mechanic.prompt_parser import understand
from copydesk.jobs.workspace.workspace import Workspace

NO_CHANGE = "No change"
LONGEST_TITLE, LONGEST_SUMMARY = 120, 20_000
ABILITIES = (
    "The built-in mechanic can replace a word or phrase, rename or move a page with its links, fix broken internal "
    "links, add missing front-matter fields, remove trailing white space and fix heading levels."
)
HOW_TO_GET_A_MODEL = (
    "To have it done, set COPYDESK_MODEL to for example openai:…, anthropic:…, google:…, or openai-compatible:… with "
    "COPYDESK_MODEL_URL, and restart."
)


class Mechanic:
    name = "mechanic"

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        """In a thread: on a large repository the work takes seconds, and the worker must keep its lease meanwhile."""
        return await asyncio.to_thread(answer, conversation, workspace)


def answer(conversation: Conversation, workspace: Workspace) -> Reply:
    """What comes next follows from the latest prompt and what was said and done since."""
    turn = sum(isinstance(entry, Prompt) for entry in conversation)
    latest = max((n for n, entry in enumerate(conversation) if isinstance(entry, Prompt)), default=None)
    if latest is None:
        return Reply()
    prompt, since = conversation[latest], conversation[latest + 1 :]
    assert isinstance(prompt, Prompt)
    replies = [entry for entry in since if isinstance(entry, Reply)]
    if any(call.name == "finish" for reply in replies for call in reply.calls):
        return Reply()
    instructions = understand(prompt.text)
    if isinstance(instructions, NotUnderstood):
        return _finish(turn, 0, NO_CHANGE, _beyond(instructions))
    said: list[str] = []
    for number in range(_done(replies) + 1, len(instructions) + 1):
        plan = _plan(workspace, instructions[number - 1])
        said.append("\n".join([f"I understood: {instructions[number - 1]}.", *plan.notes]))
        if plan.calls:
            return Reply(text="\n\n".join(said), calls=_calls(turn, number, plan))
    results = {result.call_id: result for entry in since if isinstance(entry, Observed) for result in entry.results}
    return _finish(
        turn, len(instructions) + 1, _title(instructions, replies, results), _summary(replies, results, said)
    )


def _plan(workspace: Workspace, asked: Instruction) -> Plan:
    match asked:
        case Replace():
            return replacing.plan(workspace, asked)
        case MovePage():
            return moving.plan(workspace, asked)
        case FixLinks():
            return links.plan(workspace, asked)
        case AddField():
            return fields.plan(workspace, asked)
        case TrimSpace():
            return tidying.plan_trimming(workspace, asked)
        case FixHeadings():
            return tidying.plan_headings(workspace, asked)


def _calls(turn: int, number: int, plan: Plan) -> tuple[ToolCall, ...]:
    """An id names the prompt, the instruction and the call, so that the conversation itself tells what is done."""
    return tuple(
        ToolCall(id=f"call-{turn}-{number}-{n}", name=name, arguments=arguments)
        for n, (name, arguments) in enumerate(plan.calls, 1)
    )


def _number(call: ToolCall) -> int:
    return int(call.id.split("-")[2])


def _done(replies: list[Reply]) -> int:
    return max((_number(call) for reply in replies for call in reply.calls), default=0)


def _finish(turn: int, number: int, title: str, summary: str) -> Reply:
    arguments = {"title": title, "summary": summary[:LONGEST_SUMMARY]}
    return Reply(text=summary, calls=(ToolCall(id=f"call-{turn}-{number}-1", name="finish", arguments=arguments),))


def _title(instructions: list[Instruction], replies: list[Reply], results: dict[str, ToolResult]) -> str:
    made = sorted({_number(call) for call, result in _answered(replies, results) if result.ok})
    if not made:
        return NO_CHANGE
    first = str(instructions[made[0] - 1])
    more = f", and {len(made) - 1} more" if len(made) > 1 else ""
    title = first[0].upper() + first[1:]
    return (title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…") + more


def _summary(replies: list[Reply], results: dict[str, ToolResult], said: list[str]) -> str:
    parts = []
    for reply in replies:
        answered = list(_answered([reply], results))
        changed = [_subject(call) for call, result in answered if result.ok]
        refused = [f"- {_subject(call)}: {result.text}" for call, result in answered if not result.ok]
        parts.append(reply.text)
        if changed:
            parts.append(f"Changed {counted(len(set(changed)), 'file')}: {listed(list(dict.fromkeys(changed)))}.")
        if refused:
            parts.append("\n".join(["Refused:", *refused]))
    return "\n\n".join([*parts, *said])


def _answered(replies: list[Reply], results: dict[str, ToolResult]) -> Iterator[tuple[ToolCall, ToolResult]]:
    for reply in replies:
        for call in reply.calls:
            if call.id in results:
                yield call, results[call.id]


def _subject(call: ToolCall) -> str:
    path = str(call.arguments.get("path", ""))
    return f"{path} → {call.arguments['to']}" if call.name == "move" else path


def _beyond(instructions: NotUnderstood) -> str:
    part = instructions.part if len(instructions.part) <= 200 else instructions.part[:200] + "…"
    what = f"“{part}”" if part else "An empty prompt"
    return (
        f"{what} needs a language model, and none is set, so nothing was changed. {HOW_TO_GET_A_MODEL}\n\n{ABILITIES}"
    )
