"""Gives advice to a model that is stuck, and ends the run if it stays stuck. Depends only on the conversation.

A turn is fruitless when it has neither text nor calls, when it has only text, or when each of its calls names an
unknown tool, has invalid arguments, or repeats an earlier call with the same result. The first two fruitless turns in a
row get advice; the third ends the run. Text alone counts as the end of the work once the model got advice and has used
its tools.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from copydesk.jobs.agent.conversation import Conversation, Prompt, Reply, ToolCall, ToolResult, ToolResults
from copydesk.jobs.agent.tools.toolbox import INVALID_ARGUMENTS

MAX_ADVICE = 2
RECENT_ROUNDS = 10
"""Rounds that are searched for repeated calls. Compaction removes older results, so a model may repeat their calls."""
REPEAT_LIMIT = 3
"""A successful call counts as repeated from this occurrence on, as a second look may help; a refused one from 2 on."""

ADVICE_BY_FAULT = {
    "empty": "Your last answer was empty.",
    "text": "Your last answer calls no tool, and only tools change anything.",
    "unknown": "There is no such tool.",
    "misfit": "The arguments of a call must fit its description: look at the names and types it asks for.",
    "repeated": "The same call returned this before; nothing has changed since. Do something else.",
}
FAULT_DESCRIPTIONS = {
    "empty": "returned empty answers",
    "text": "answered with text only and called no tool",
    "unknown": "called tools that do not exist",
    "misfit": "called tools with invalid arguments",
    "repeated": "repeated calls and got the same results as before",
}
NEXT_STEP_HINT = "Continue with the request by calling a tool, or call finish with a title and a summary."
LAST_WARNING = "If your next answer brings nothing new either, the job ends here."


@dataclass(frozen=True)
class Advice:
    text: str


@dataclass(frozen=True)
class FinishedInText:
    """The model ended its work with text instead of a finish call."""

    text: str


@dataclass(frozen=True)
class GiveUp:
    reason: str


Verdict = Advice | FinishedInText | GiveUp | None


def judge_latest_turn(conversation: Conversation, tools: Collection[str]) -> Verdict:
    """Returns the verdict on the latest turn; None means that the turn made progress."""
    return next((verdict for _, verdict in reversed(list(_judge_turns(conversation, tools)))), None)


def add_advice(conversation: Conversation, tools: Collection[str]) -> Conversation:
    """Returns the conversation as the model sees it: with the advice on each fruitless turn."""
    advice_by_position = {
        turn_end: verdict.text for turn_end, verdict in _judge_turns(conversation, tools) if isinstance(verdict, Advice)
    }
    annotated: Conversation = []
    for position, entry in enumerate(conversation):
        hint = advice_by_position.get(position)
        # Advice on tool calls is added to their result, because some models reject a prompt directly after a result.
        if hint and isinstance(entry, ToolResults):
            *others, last = entry.results
            result_with_hint = last.model_copy(update={"text": f"{last.text}\n\n{hint}"})
            annotated.append(ToolResults(results=(*others, result_with_hint)))
        else:
            annotated += [entry, Prompt(text=hint)] if hint else [entry]
    return annotated


def _judge_turns(conversation: Conversation, tools: Collection[str]) -> Iterator[tuple[int, Verdict]]:
    """Yields the position where each turn ends, with the verdict on the turn."""
    fruitless_turns = 0
    used_tools = False
    rounds: list[Counter[str]] = []
    for position, entry in enumerate(conversation):
        if isinstance(entry, Prompt):
            fruitless_turns = 0
            used_tools = False
            rounds = []
        elif isinstance(entry, Reply) and not entry.calls:
            if entry.text.strip() and fruitless_turns and used_tools:
                yield position, FinishedInText(entry.text)
            else:
                yield position, _advise_or_give_up("text" if entry.text.strip() else "empty", fruitless_turns)
            fruitless_turns += 1
        elif isinstance(entry, ToolResults):
            reply = conversation[position - 1]
            assert isinstance(reply, Reply)
            exchanges = list(zip(reply.calls, entry.results, strict=False))
            fault = _find_fault(exchanges, rounds[-RECENT_ROUNDS:], tools)
            rounds.append(Counter(map(_fingerprint, exchanges)))
            used_tools = used_tools or any(result.ok for result in entry.results)
            yield position, _advise_or_give_up(fault, fruitless_turns) if fault else None
            fruitless_turns = fruitless_turns + 1 if fault else 0


def _find_fault(
    exchanges: list[tuple[ToolCall, ToolResult]], rounds: list[Counter[str]], tools: Collection[str]
) -> str | None:
    """Returns the fault of a whole round; None when at least one of its calls made progress."""
    earlier_counts = sum(rounds, Counter[str]())
    faults = []
    for call, result in exchanges:
        times = earlier_counts[_fingerprint((call, result))] + 1
        if call.name not in tools:
            faults.append("unknown")
        elif not result.ok and result.text.startswith(INVALID_ARGUMENTS):
            faults.append("misfit")
        elif times >= (REPEAT_LIMIT if result.ok else 2):
            faults.append("repeated")
        else:
            return None
    return faults[0] if faults else None


def _fingerprint(exchange: tuple[ToolCall, ToolResult]) -> str:
    call, result = exchange
    return f"{call.name} {sorted(call.arguments.items(), key=str)} {result.ok} {result.text}"


def _advise_or_give_up(fault: str, fruitless_turns: int) -> Verdict:
    if fruitless_turns >= MAX_ADVICE:
        return GiveUp(f"The model {FAULT_DESCRIPTIONS[fault]}, {fruitless_turns + 1} turns in a row, despite advice.")
    warning = f" {LAST_WARNING}" if fruitless_turns == MAX_ADVICE - 1 else ""
    return Advice(f"[Copydesk] {ADVICE_BY_FAULT[fault]} {NEXT_STEP_HINT}{warning}")
