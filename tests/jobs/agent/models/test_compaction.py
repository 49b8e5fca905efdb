"""Long conversations stay within a model's context window without losing their task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.jobs.agent.conversation import Conversation, Prompt, Reply, ToolCall, ToolResult, ToolResults
from copydesk.jobs.agent.models.compaction import (
    LEFT_OUT_PREFIX,
    PROTECTED_ROUNDS,
    compact,
    conversation_tokens,
    estimate_tokens,
)


def make_turn(n: int, length: int, written: int = 0) -> Conversation:
    made = ToolCall(id=f"c{n}", name="read", arguments={"path": f"docs/{n}.md", "content": "w" * written})
    return [
        Reply(calls=(made,)),
        ToolResults(results=(ToolResult(call_id=f"c{n}", name="read", ok=True, text="x" * length),)),
    ]


def make_conversation(*lengths: int, written: int = 0) -> Conversation:
    held: Conversation = [Prompt(text="Fix it.")]
    for n, length in enumerate(lengths):
        held += make_turn(n, length, written)
    return held


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """Generates prompts, replies and results of any sizes, in a possible order."""
    held: Conversation = [Prompt(text=draw(st.text(max_size=200)))]
    for n in range(draw(st.integers(0, 12))):
        held += make_turn(n, draw(st.integers(0, 4000)), draw(st.sampled_from((0, 0, 2000))))
        if draw(st.booleans()):
            held.append(Prompt(text=draw(st.text(max_size=200))))
    return held


limits = st.integers(1, 6000)


def test_conversation_that_fits_is_unchanged() -> None:
    held = make_conversation(3000, 3000, 3000)
    assert compact(held, 10_000) == held


def test_oldest_results_are_replaced_by_a_summary_line() -> None:
    held = make_conversation(*[3000] * 6)
    short = compact(held, 5000)
    texts = [entry.results[0].text for entry in short if isinstance(entry, ToolResults)]
    assert texts[0] == f'{LEFT_OUT_PREFIX}: the result of read path="docs/0.md", 1 lines. Call it again to see it.]'
    assert texts[-1] == texts[-2] == "x" * 3000
    assert conversation_tokens(short) <= 5000


@pytest.mark.deep
def test_beginning_changes_rarely_so_that_it_stays_cached() -> None:
    held = make_conversation(*[900] * 60)
    changed = 0
    for end in range(3, len(held), 2):
        before, after = compact(held[:end], 6000), compact(held[: end + 2], 6000)
        changed += after[:end] != before
    assert 0 < changed < 15


def test_long_arguments_are_replaced_when_results_are_not_enough() -> None:
    short = compact(make_conversation(*[10] * 8, written=6000), 8000)
    written = [entry.calls[0].arguments["content"] for entry in short if isinstance(entry, Reply)]
    assert "6,000 characters, left out" in written[0]
    assert written[-1] == "w" * 6000
    assert conversation_tokens(short) <= 8000


@pytest.mark.deep
@given(conversations(), limits)
def test_prompts_text_and_newest_results_are_never_replaced(held: Conversation, limit: int) -> None:
    short = compact(held, limit)
    assert len(short) == len(held)
    rounds = [n for n, entry in enumerate(held) if isinstance(entry, ToolResults)]
    for n, (before, after) in enumerate(zip(held, short, strict=True)):
        if isinstance(before, Prompt) or n in rounds[-PROTECTED_ROUNDS:]:
            assert after == before
        elif isinstance(before, Reply) and isinstance(after, Reply):
            assert (after.text, [c.id for c in after.calls]) == (before.text, [c.id for c in before.calls])


@pytest.mark.deep
@given(conversations(), limits)
def test_every_call_keeps_its_result(held: Conversation, limit: int) -> None:
    for before, after in zip(held, compact(held, limit), strict=True):
        if isinstance(before, ToolResults) and isinstance(after, ToolResults):
            assert [(r.call_id, r.name, r.ok) for r in after.results] == [
                (r.call_id, r.name, r.ok) for r in before.results
            ]


@pytest.mark.deep
@given(conversations(), limits)
def test_compaction_never_grows_and_fits_if_possible(held: Conversation, limit: int) -> None:
    short = compact(held, limit)
    assert conversation_tokens(short) <= conversation_tokens(held)
    floor = conversation_tokens(compact(held, 0))
    assert conversation_tokens(short) <= max(limit, floor)


@pytest.mark.deep
@given(conversations(), limits)
def test_the_same_conversation_gives_the_same_request(held: Conversation, limit: int) -> None:
    again = [type(entry).model_validate_json(entry.model_dump_json()) for entry in held]
    assert compact(again, limit) == compact(held, limit)


@pytest.mark.deep
@given(conversations(), limits)
def test_omitted_results_stay_omitted(held: Conversation, limit: int) -> None:
    """A longer conversation begins with the shorter one, unless more had to be omitted."""
    later = compact(held, limit)
    for end in range(1, len(held)):
        for whole, then, now in zip(held, compact(held[:end], limit), later, strict=False):
            assert then in (whole, now)


@pytest.mark.deep
@given(st.text(max_size=500))
def test_estimate_is_at_least_one_token_per_four_letters_or_cjk_character(text: str) -> None:
    assert estimate_tokens(text) >= len(text) / 4
    assert estimate_tokens("漢" * 90) >= 90
