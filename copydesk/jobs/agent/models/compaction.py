"""Compacts a long conversation to fit a model's context window: describes old tool results in one line instead.

The outcome depends only on the conversation and the limit, so a resumed run sends the same requests. Text that was left
out once stays left out, so the beginning of the conversation stays the same between requests and can be cached.
"""

import json
from typing import Any

from copydesk.jobs.agent.conversation import (
    Conversation,
    ConversationEntry,
    Prompt,
    Reply,
    ToolCall,
    ToolResult,
    ToolResults,
)

BYTES_PER_TOKEN = 3
"""Lower than for any common tokenizer on prose, code or Chinese, so that estimates are on the high side."""
TOKENS_PER_PART = 8
PROTECTED_ROUNDS = 2
"""The newest rounds of results are never shortened, because the model is working with them."""
MIN_CHARS_TO_CUT = 300
"""Shorter texts are not replaced, because that would save nothing."""
LEFT_OUT_PREFIX = "[Left out to save space"
IDENTIFYING_ARGUMENTS = ("path", "folder", "pattern", "files", "start", "lines", "to")


def estimate_tokens(*texts: str) -> int:
    """Estimates the number of tokens of these texts. The estimate is rarely too low."""
    return sum(TOKENS_PER_PART + len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN for text in texts)


def conversation_tokens(conversation: Conversation) -> int:
    return sum(map(_entry_tokens, conversation))


def compact(conversation: Conversation, limit: int) -> Conversation:
    """Returns the conversation in at most `limit` tokens, if prompts and the newest results leave room for that.

    Each time the conversation grows beyond the limit, it is reduced to two thirds of the limit, oldest entries first:
    first results and then, if that is not enough, long arguments of calls, whose effect is in the workspace already.
    """
    compacted: Conversation = []
    total_tokens = 0
    calls: dict[str, ToolCall] = {}
    for entry in conversation:
        if isinstance(entry, Reply):
            calls.update((call.id, call) for call in entry.calls)
        compacted.append(entry)
        total_tokens += _entry_tokens(entry)
        # Requests follow prompts and results, so the tokens of a reply are checked with the entry after it.
        if total_tokens > limit and not isinstance(entry, Reply):
            total_tokens = _shrink(compacted, total_tokens, limit * 2 // 3, calls)
    return compacted


def _shrink(conversation: Conversation, total_tokens: int, target_tokens: int, calls: dict[str, ToolCall]) -> int:
    rounds = [n for n, entry in enumerate(conversation) if isinstance(entry, ToolResults)][:-PROTECTED_ROUNDS]
    replies = [n for n, entry in enumerate(conversation) if isinstance(entry, Reply)][:-PROTECTED_ROUNDS]
    for position in (*rounds, *replies):
        if total_tokens <= target_tokens:
            break
        before = conversation[position]
        conversation[position] = after = _shorten_entry(before, calls)
        total_tokens += _entry_tokens(after) - _entry_tokens(before)
    return total_tokens


def _shorten_entry(entry: ConversationEntry, calls: dict[str, ToolCall]) -> ConversationEntry:
    if isinstance(entry, ToolResults):
        return ToolResults(results=tuple(_stub_result(result, calls.get(result.call_id)) for result in entry.results))
    assert isinstance(entry, Reply)
    short_calls = tuple(call.model_copy(update={"arguments": _cut_long_texts(call.arguments)}) for call in entry.calls)
    return entry.model_copy(update={"calls": short_calls})


def _stub_result(result: ToolResult, call: ToolCall | None) -> ToolResult:
    if len(result.text) < MIN_CHARS_TO_CUT or result.text.startswith(LEFT_OUT_PREFIX):
        return result
    arguments = {name: call.arguments[name] for name in IDENTIFYING_ARGUMENTS if name in call.arguments} if call else {}
    arguments_text = "".join(
        f" {name}={json.dumps(value, ensure_ascii=False)[:120]}" for name, value in arguments.items()
    )
    lines = result.text.count("\n") + 1
    stub = f"{LEFT_OUT_PREFIX}: the result of {result.name}{arguments_text}, {lines} lines. Call it again to see it.]"
    return result.model_copy(update={"text": stub})


def _cut_long_texts(value: Any) -> Any:
    """Shortens long texts in the arguments of a call and leaves the rest of the call unchanged."""
    if isinstance(value, dict):
        return {name: _cut_long_texts(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut_long_texts(inner) for inner in value]
    if isinstance(value, str) and len(value) >= MIN_CHARS_TO_CUT:
        return f"{value[:80]}… [{len(value):,} characters, left out to save space; diff or read shows them]"
    return value


def _entry_tokens(entry: ConversationEntry) -> int:
    if isinstance(entry, Prompt):
        return estimate_tokens(entry.full_text)
    if isinstance(entry, ToolResults):
        return estimate_tokens(*(result.text for result in entry.results))
    parts = entry.keepsake.parts if entry.keepsake else ()
    thoughts = (f"{part.signature or ''}{part.text if part.kind == 'thinking' else ''}" for part in parts)
    return estimate_tokens(
        entry.text, *thoughts, *(json.dumps(call.arguments, ensure_ascii=False) for call in entry.calls)
    )
