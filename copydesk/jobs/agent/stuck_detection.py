"""Helps a model that is stuck with a sentence, and gives up on one that stays so. All of it follows from what was said.

A turn is fruitless when it has neither text nor calls, when it has text alone, or when each of its calls names no tool,
does not fit it, or gets an answer that the same call got before. Two such turns in a row are answered with advice, the
third ends the run. Text alone is taken for the end of the work once the model was asked for it and has used its tools.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from copydesk.jobs.agent.conversation import Conversation, Prompt, Reply, ToolCall, ToolResult, ToolResults
from copydesk.jobs.agent.tools.toolbox import INVALID_ARGUMENTS

MAX_ADVICE = 2
RECENT_ROUNDS = 10
"""Rounds that are looked back on: a file that was left out to save room may well be read once more."""
REPEAT_LIMIT = 3
"""What was answered is worth seeing twice; what was refused is not."""

ADVICE_BY_FAULT = {
    "empty": "Your last answer was empty.",
    "text": "Your last answer calls no tool, and only tools change anything.",
    "unknown": "There is no such tool.",
    "misfit": "The arguments of a call must fit its description: look at the names and types it asks for.",
    "repeated": "This is what the same call was answered before; nothing has changed since. Do something else.",
}
FAULT_DESCRIPTIONS = {
    "empty": "answered with nothing",
    "text": "answered with text alone and used no tool",
    "unknown": "called tools that do not exist",
    "misfit": "called tools with arguments that do not fit them",
    "repeated": "repeated calls whose answer it knew",
}
NEXT_STEP_HINT = "Go on with the request by calling a tool, or call finish with a title and a summary."
LAST_WARNING = "If your next answer brings nothing new either, the job ends here."


@dataclass(frozen=True)
class Advice:
    text: str


@dataclass(frozen=True)
class FinishedInText:
    """The model has said in words what finish would have said."""

    text: str


@dataclass(frozen=True)
class GiveUp:
    reason: str


Verdict = Advice | FinishedInText | GiveUp | None


def judge_latest_turn(conversation: Conversation, tools: Collection[str]) -> Verdict:
    """On the latest turn; None when it was a good one."""
    return next((verdict for _, verdict in reversed(list(_judge_turns(conversation, tools)))), None)


def add_advice(conversation: Conversation, tools: Collection[str]) -> Conversation:
    """The conversation as the model is to see it, with the advice that it got on the way."""
    advice_by_position = {
        turn_end: verdict.text for turn_end, verdict in _judge_turns(conversation, tools) if isinstance(verdict, Advice)
    }
    annotated: Conversation = []
    for position, entry in enumerate(conversation):
        hint = advice_by_position.get(position)
        if hint and isinstance(
            entry, ToolResults
        ):  # part of the result: not every model takes a prompt right after one
            *others, last = entry.results
            result_with_hint = last.model_copy(update={"text": f"{last.text}\n\n{hint}"})
            annotated.append(ToolResults(results=(*others, result_with_hint)))
        else:
            annotated += [entry, Prompt(text=hint)] if hint else [entry]
    return annotated


def _judge_turns(conversation: Conversation, tools: Collection[str]) -> Iterator[tuple[int, Verdict]]:
    """The position where each turn ends, and what is to be said about it."""
    fruitless_turns, used_tools = 0, False
    rounds: list[Counter[str]] = []
    for position, entry in enumerate(conversation):
        if isinstance(entry, Prompt):
            fruitless_turns, used_tools, rounds = 0, False, []
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
    """What is wrong with the whole round; None as soon as one of its calls brought something."""
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
        return GiveUp(
            f"The model {FAULT_DESCRIPTIONS[fault]}, {fruitless_turns + 1} turns in a row, though it was told to go on."
        )
    warning = f" {LAST_WARNING}" if fruitless_turns == MAX_ADVICE - 1 else ""
    return Advice(f"[Copydesk] {ADVICE_BY_FAULT[fault]} {NEXT_STEP_HINT}{warning}")
