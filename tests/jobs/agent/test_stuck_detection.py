"""A stuck model receives a hint twice; then the run ends with a reason."""

import pytest

from copydesk.jobs.agent.conversation import Conversation, Prompt, Reply, ToolCall, ToolResult, ToolResults
from copydesk.jobs.agent.stuck_detection import Advice, FinishedInText, GiveUp, add_advice, judge_latest_turn
from copydesk.jobs.agent.tools import TOOLS
from copydesk.jobs.agent.tools.toolbox import INVALID_ARGUMENTS

ASKED: Conversation = [Prompt(text="Fix it.")]


def make_turn(name: str, answer: str, *, ok: bool = True, path: str = "a.md") -> Conversation:
    made = ToolCall(id="c", name=name, arguments={"path": path})
    return [Reply(calls=(made,)), ToolResults(results=(ToolResult(call_id="c", name=name, ok=ok, text=answer),))]


LOOKED = make_turn("read", "1 Hello")
EMPTY: Conversation = [Reply()]
WORDS: Conversation = [Reply(text="I have done it.")]
UNKNOWN = make_turn("shell", "There is no tool shell.", ok=False)
MISFITTING = make_turn("read", f"{INVALID_ARGUMENTS}: path: Field required.", ok=False)
REFUSED = make_turn("edit", "The file is not what you read.", ok=False)


def verdict_name(*turns: Conversation) -> str:
    found = judge_latest_turn([*ASKED, *(entry for one in turns for entry in one)], TOOLS)
    return type(found).__name__


def test_model_that_makes_progress_gets_no_advice() -> None:
    assert verdict_name(LOOKED) == "NoneType"
    assert verdict_name(LOOKED, REFUSED, make_turn("read", "1 Hello", path="b.md")) == "NoneType"


@pytest.mark.parametrize("stuck", [EMPTY, UNKNOWN, MISFITTING], ids=["empty", "unknown tool", "misfit"])
def test_stuck_model_is_advised_twice_and_then_stopped(stuck: Conversation) -> None:
    assert verdict_name(stuck) == "Advice"
    assert verdict_name(stuck, stuck) == "Advice"
    assert verdict_name(stuck, stuck, stuck) == "GiveUp"


def test_refused_call_may_be_made_once_and_answered_call_twice() -> None:
    assert verdict_name(REFUSED) == "NoneType"
    assert verdict_name(REFUSED, REFUSED) == "Advice"
    assert verdict_name(*[REFUSED] * 4) == "GiveUp"
    assert verdict_name(LOOKED, LOOKED) == "NoneType"
    assert verdict_name(*[LOOKED] * 3) == "Advice"
    assert verdict_name(*[LOOKED] * 5) == "GiveUp"


def test_model_that_repeats_a_cycle_is_stopped() -> None:
    circle = [make_turn("read", "1", path=path) for path in ("a.md", "b.md")]
    assert verdict_name(*circle * 2) == "NoneType"
    assert verdict_name(*circle * 3, circle[0]) == "GiveUp"


def test_page_may_be_read_again_later() -> None:
    others = [make_turn("read", "1", path=f"{n}.md") for n in range(12)]
    assert verdict_name(LOOKED, LOOKED, *others, LOOKED) == "NoneType"


def test_same_call_with_another_result_is_not_a_repetition() -> None:
    assert verdict_name(*(make_turn("diff", f"+ {n}") for n in range(6))) == "NoneType"


def test_one_good_call_in_a_turn_is_enough() -> None:
    both = Reply(calls=(ToolCall(id="a", name="shell", arguments={}), ToolCall(id="b", name="diff", arguments={})))
    bad = ToolResult(call_id="a", name="shell", ok=False, text="There is no tool shell.")
    good = ToolResult(call_id="b", name="diff", ok=True, text="Nothing has been changed.")
    assert verdict_name([both, ToolResults(results=(bad, good))]) == "NoneType"


def test_new_call_in_between_resets_the_count() -> None:
    assert verdict_name(EMPTY, EMPTY, LOOKED, EMPTY, EMPTY) == "Advice"


def test_message_from_a_person_resets_the_count() -> None:
    assert verdict_name(EMPTY, EMPTY, [Prompt(text="Well?")], EMPTY) == "Advice"


def test_text_alone_is_accepted_after_advice_if_tools_were_used() -> None:
    assert verdict_name(LOOKED, WORDS) == "Advice"
    assert verdict_name(LOOKED, WORDS, WORDS) == "FinishedInText"
    found = judge_latest_turn([*ASKED, *LOOKED, *WORDS, Reply(text="Really.")], TOOLS)
    assert found == FinishedInText("Really.")


def test_text_alone_without_any_tool_call_is_not_accepted() -> None:
    assert verdict_name(WORDS, WORDS) == "Advice"
    assert verdict_name(WORDS, WORDS, WORDS) == "GiveUp"
    found = judge_latest_turn([*ASKED, *WORDS * 3], TOOLS)
    assert isinstance(found, GiveUp)
    assert found.reason.startswith("The model answered with text only and called no tool, 3 turns in a row")


def test_blank_text_counts_as_empty() -> None:
    assert verdict_name(LOOKED, EMPTY, [Reply(text=" \n")]) == "Advice"


def test_advice_on_calls_is_in_their_result_and_other_advice_is_a_prompt() -> None:
    seen = add_advice([*ASKED, *UNKNOWN, *EMPTY], TOOLS)
    answered, prompt = seen[2], seen[-1]
    assert isinstance(answered, ToolResults)
    assert answered.results[0].text.startswith("There is no tool shell.\n\n[Copydesk] There is no such tool.")
    assert isinstance(prompt, Prompt)
    assert prompt.text.startswith("[Copydesk] Your last answer was empty.")
    assert "the job ends here" in prompt.text


def test_advice_is_repeated_after_a_resume() -> None:
    held = [*ASKED, *UNKNOWN, *EMPTY, *LOOKED, *WORDS]
    for end in range(1, len(held) + 1):
        shorter = add_advice(held[:end], TOOLS)
        assert add_advice(held, TOOLS)[: len(shorter)] == shorter


def test_good_turns_are_unchanged() -> None:
    held = [*ASKED, *LOOKED, *REFUSED]
    assert add_advice(held, TOOLS) == held
    assert not isinstance(judge_latest_turn(held, TOOLS), Advice)
