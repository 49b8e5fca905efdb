"""Keeps a long conversation within a model's window: old tool results give way to a line that says what they were.

What is left out follows from the conversation and the limit alone, so a resumed run asks just what it would have
asked. And what was once left out stays so: from one time to the next the beginning is the same, and can be cached.
"""

import json
from typing import Any

from copydesk.jobs.agent.conversation import Conversation, Entry, Observed, Prompt, Reply, ToolCall, ToolResult

BYTES_PER_TOKEN = 3
"""Fewer than any common tokenizer needs for prose, code or Chinese, so that the estimate is on the high side."""
PER_PART = 8
KEPT_ROUNDS = 2
"""The newest rounds of results, which the model is working with."""
WORTH_IT = 300
"""Shorter texts are left alone: a line in their place would save nothing."""
LEFT_OUT = "[Left out to save room"
ASKED_AS = ("path", "folder", "pattern", "files", "start", "lines", "to")


def tokens(*texts: str) -> int:
    """About how many tokens these are, and rarely fewer."""
    return sum(PER_PART + len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN for text in texts)


def size(conversation: Conversation) -> int:
    return sum(map(_size, conversation))


def compacted(conversation: Conversation, limit: int) -> Conversation:
    """The conversation in at most `limit` tokens, as far as that goes without touching prompts or the newest results.

    Each time it grows beyond the limit it is brought down to two thirds of it, from the oldest on: first results, and
    where these are not enough the long arguments of calls, which the workspace has taken up.
    """
    kept: Conversation = []
    total = 0
    calls: dict[str, ToolCall] = {}
    for entry in conversation:
        if isinstance(entry, Reply):
            calls.update((call.id, call) for call in entry.calls)
        kept.append(entry)
        total += _size(entry)
        # Requests are made after prompts and results; what a reply adds is seen then.
        if total > limit and not isinstance(entry, Reply):
            total = _shrink(kept, total, limit * 2 // 3, calls)
    return kept


def _shrink(kept: Conversation, total: int, goal: int, calls: dict[str, ToolCall]) -> int:
    rounds = [n for n, entry in enumerate(kept) if isinstance(entry, Observed)][:-KEPT_ROUNDS]
    said = [n for n, entry in enumerate(kept) if isinstance(entry, Reply)][:-KEPT_ROUNDS]
    for position in (*rounds, *said):
        if total <= goal:
            break
        before = kept[position]
        kept[position] = after = _shortened(before, calls)
        total += _size(after) - _size(before)
    return total


def _shortened(entry: Entry, calls: dict[str, ToolCall]) -> Entry:
    if isinstance(entry, Observed):
        return Observed(results=tuple(_stub(result, calls.get(result.call_id)) for result in entry.results))
    assert isinstance(entry, Reply)
    short = tuple(call.model_copy(update={"arguments": _cut(call.arguments)}) for call in entry.calls)
    return entry.model_copy(update={"calls": short})


def _stub(result: ToolResult, call: ToolCall | None) -> ToolResult:
    if len(result.text) < WORTH_IT or result.text.startswith(LEFT_OUT):
        return result
    asked = {name: call.arguments[name] for name in ASKED_AS if name in call.arguments} if call else {}
    about = "".join(f" {name}={json.dumps(value, ensure_ascii=False)[:120]}" for name, value in asked.items())
    lines = result.text.count("\n") + 1
    line = f"{LEFT_OUT}: what {result.name}{about} answered, {lines} lines. Call it again to see it.]"
    return result.model_copy(update={"text": line})


def _cut(value: Any) -> Any:
    """Long texts in arguments are cut; everything else about the call stays as it was."""
    if isinstance(value, dict):
        return {name: _cut(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut(inner) for inner in value]
    if isinstance(value, str) and len(value) >= WORTH_IT:
        return f"{value[:80]}… [{len(value):,} characters, left out to save room; diff or read shows them]"
    return value


def _size(entry: Entry) -> int:
    if isinstance(entry, Prompt):
        return tokens(entry.text)
    if isinstance(entry, Observed):
        return tokens(*(result.text for result in entry.results))
    sealed = entry.keepsake.parts if entry.keepsake else ()
    thoughts = (f"{part.signature or ''}{part.text if part.kind == 'thinking' else ''}" for part in sealed)
    return tokens(entry.text, *thoughts, *(json.dumps(call.arguments, ensure_ascii=False) for call in entry.calls))
