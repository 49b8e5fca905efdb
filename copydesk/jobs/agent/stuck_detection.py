"""Helps a model that is stuck with a sentence, and gives up on one that stays so. All of it follows from what was said.

A turn is fruitless when it has neither text nor calls, when it has text alone, or when each of its calls names no tool,
does not fit it, or gets an answer that the same call got before. Two such turns in a row are answered with advice, the
third ends the run. Text alone is taken for the end of the work once the model was asked for it and has used its tools.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from copydesk.jobs.agent.conversation import Conversation, Observed, Prompt, Reply, ToolCall, ToolResult
from copydesk.jobs.agent.tools.toolbox import MISFIT

MOST_ADVICE = 2
RECENT = 10
"""Rounds that are looked back on: a file that was left out to save room may well be read once more."""
SEEN_OFTEN = 3
"""What was answered is worth seeing twice; what was refused is not."""

ADVICE = {
    "empty": "Your last answer was empty.",
    "text": "Your last answer calls no tool, and only tools change anything.",
    "unknown": "There is no such tool.",
    "misfit": "The arguments of a call must fit its description: look at the names and types it asks for.",
    "repeated": "This is what the same call was answered before; nothing has changed since. Do something else.",
}
WHAT_IT_DID = {
    "empty": "answered with nothing",
    "text": "answered with text alone and used no tool",
    "unknown": "called tools that do not exist",
    "misfit": "called tools with arguments that do not fit them",
    "repeated": "repeated calls whose answer it knew",
}
HOW_TO_GO_ON = "Go on with the request by calling a tool, or call finish with a title and a summary."
LAST_WARNING = "If your next answer brings nothing new either, the job ends here."


@dataclass(frozen=True)
class Advised:
    text: str


@dataclass(frozen=True)
class Accepted:
    """The model has said in words what finish would have said."""

    text: str


@dataclass(frozen=True)
class GivenUp:
    why: str


Verdict = Advised | Accepted | GivenUp | None


def verdict(conversation: Conversation, tools: Collection[str]) -> Verdict:
    """On the latest turn; None when it was a good one."""
    return next((verdict for _, verdict in reversed(list(_turns(conversation, tools)))), None)


def advised(conversation: Conversation, tools: Collection[str]) -> Conversation:
    """The conversation as the model is to see it, with the advice that it got on the way."""
    advice = {end: found.text for end, found in _turns(conversation, tools) if isinstance(found, Advised)}
    seen: Conversation = []
    for position, entry in enumerate(conversation):
        note = advice.get(position)
        if note and isinstance(entry, Observed):  # part of the result: not every model takes a prompt right after one
            *others, last = entry.results
            told = last.model_copy(update={"text": f"{last.text}\n\n{note}"})
            seen.append(Observed(results=(*others, told)))
        else:
            seen += [entry, Prompt(text=note)] if note else [entry]
    return seen


def _turns(conversation: Conversation, tools: Collection[str]) -> Iterator[tuple[int, Verdict]]:
    """The position where each turn ends, and what is to be said about it."""
    in_a_row, used_tools = 0, False
    rounds: list[Counter[str]] = []
    for position, entry in enumerate(conversation):
        if isinstance(entry, Prompt):
            in_a_row, used_tools, rounds = 0, False, []
        elif isinstance(entry, Reply) and not entry.calls:
            if entry.text.strip() and in_a_row and used_tools:
                yield position, Accepted(entry.text)
            else:
                yield position, _told("text" if entry.text.strip() else "empty", in_a_row)
            in_a_row += 1
        elif isinstance(entry, Observed):
            calls = conversation[position - 1]
            assert isinstance(calls, Reply)
            exchanged = list(zip(calls.calls, entry.results, strict=False))
            fault = _fault(exchanged, rounds[-RECENT:], tools)
            rounds.append(Counter(map(_fingerprint, exchanged)))
            used_tools = used_tools or any(result.ok for result in entry.results)
            yield position, _told(fault, in_a_row) if fault else None
            in_a_row = in_a_row + 1 if fault else 0


def _fault(
    exchanged: list[tuple[ToolCall, ToolResult]], rounds: list[Counter[str]], tools: Collection[str]
) -> str | None:
    """What is wrong with the whole round; None as soon as one of its calls brought something."""
    before = sum(rounds, Counter[str]())
    faults = []
    for call, result in exchanged:
        times = before[_fingerprint((call, result))] + 1
        if call.name not in tools:
            faults.append("unknown")
        elif not result.ok and result.text.startswith(MISFIT):
            faults.append("misfit")
        elif times >= (SEEN_OFTEN if result.ok else 2):
            faults.append("repeated")
        else:
            return None
    return faults[0] if faults else None


def _fingerprint(exchanged: tuple[ToolCall, ToolResult]) -> str:
    call, result = exchanged
    return f"{call.name} {sorted(call.arguments.items(), key=str)} {result.ok} {result.text}"


def _told(fault: str, in_a_row: int) -> Verdict:
    if in_a_row >= MOST_ADVICE:
        return GivenUp(f"The model {WHAT_IT_DID[fault]}, {in_a_row + 1} turns in a row, though it was told to go on.")
    last = f" {LAST_WARNING}" if in_a_row == MOST_ADVICE - 1 else ""
    return Advised(f"[Copydesk] {ADVICE[fault]} {HOW_TO_GO_ON}{last}")
