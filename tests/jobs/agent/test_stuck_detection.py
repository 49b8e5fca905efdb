"""A stuck model receives a hint twice; then the run ends with a reason."""

import pytest

from copydesk.jobs.agent.conversation import Conversation, Prompt, Reply, ToolCall, ToolResult, ToolResults
from copydesk.jobs.agent.stuck_detection import Advice, FinishedInText, GiveUp, add_advice, judge_latest_turn
from copydesk.jobs.agent.tools import TOOLS
from copydesk.jobs.agent.tools.toolbox import INVALID_ARGUMENTS

ASKED: Conversation = [Prompt(text="Fix it.")]


def turn(name: str, answer: str, *, ok: bool = True, path: str = "a.md") -> Conversation:
    made = ToolCall(id="c", name=name, arguments={"path": path})
    return [Reply(calls=(made,)), ToolResults(results=(ToolResult(call_id="c", name=name, ok=ok, text=answer),))]


LOOKED = turn("read", "1 Hello")
EMPTY: Conversation = [Reply()]
WORDS: Conversation = [Reply(text="I have done it.")]
UNKNOWN = turn("shell", "There is no tool shell.", ok=False)
MISFITTING = turn("read", f"{INVALID_ARGUMENTS}: path: Field required.", ok=False)
REFUSED = turn("edit", "The file is not what you read.", ok=False)


def judged(*turns: Conversation) -> str:
    found = judge_latest_turn([*ASKED, *(entry for one in turns for entry in one)], TOOLS)
    return type(found).__name__


def test_model_that_makes_progress_gets_no_advice() -> None:
    assert judged(LOOKED) == "NoneType"
    assert judged(LOOKED, REFUSED, turn("read", "1 Hello", path="b.md")) == "NoneType"


@pytest.mark.parametrize("stuck", [EMPTY, UNKNOWN, MISFITTING], ids=["empty", "unknown tool", "misfit"])
def test_stuck_model_is_advised_twice_and_then_stopped(stuck: Conversation) -> None:
    assert judged(stuck) == "Advice"
    assert judged(stuck, stuck) == "Advice"
    assert judged(stuck, stuck, stuck) == "GiveUp"


def test_refused_call_may_be_made_once_and_answered_call_twice() -> None:
    assert judged(REFUSED) == "NoneType"
    assert judged(REFUSED, REFUSED) == "Advice"
    assert judged(*[REFUSED] * 4) == "GiveUp"
    assert judged(LOOKED, LOOKED) == "NoneType"
    assert judged(*[LOOKED] * 3) == "Advice"
    assert judged(*[LOOKED] * 5) == "GiveUp"


def test_model_that_repeats_a_cycle_is_stopped() -> None:
    circle = [turn("read", "1", path=path) for path in ("a.md", "b.md")]
    assert judged(*circle * 2) == "NoneType"
    assert judged(*circle * 3, circle[0]) == "GiveUp"


def test_page_may_be_read_again_later() -> None:
    others = [turn("read", "1", path=f"{n}.md") for n in range(12)]
    assert judged(LOOKED, LOOKED, *others, LOOKED) == "NoneType"


def test_same_call_with_another_result_is_not_a_repetition() -> None:
    assert judged(*(turn("diff", f"+ {n}") for n in range(6))) == "NoneType"


def test_one_good_call_in_a_turn_is_enough() -> None:
    both = Reply(calls=(ToolCall(id="a", name="shell", arguments={}), ToolCall(id="b", name="diff", arguments={})))
    bad = ToolResult(call_id="a", name="shell", ok=False, text="There is no tool shell.")
    good = ToolResult(call_id="b", name="diff", ok=True, text="Nothing has been changed.")
    assert judged([both, ToolResults(results=(bad, good))]) == "NoneType"


def test_new_call_in_between_resets_the_count() -> None:
    assert judged(EMPTY, EMPTY, LOOKED, EMPTY, EMPTY) == "Advice"


def test_message_from_a_person_resets_the_count() -> None:
    assert judged(EMPTY, EMPTY, [Prompt(text="Well?")], EMPTY) == "Advice"


def test_text_alone_is_accepted_after_advice_if_tools_were_used() -> None:
    assert judged(LOOKED, WORDS) == "Advice"
    assert judged(LOOKED, WORDS, WORDS) == "FinishedInText"
    found = judge_latest_turn([*ASKED, *LOOKED, *WORDS, Reply(text="Really.")], TOOLS)
    assert found == FinishedInText("Really.")


def test_text_alone_without_any_tool_call_is_not_accepted() -> None:
    assert judged(WORDS, WORDS) == "Advice"
    assert judged(WORDS, WORDS, WORDS) == "GiveUp"
    found = judge_latest_turn([*ASKED, *WORDS * 3], TOOLS)
    assert isinstance(found, GiveUp)
    assert found.reason.startswith("The model answered with text only and called no tool, 3 turns in a row")


def test_blank_text_counts_as_empty() -> None:
    assert judged(LOOKED, EMPTY, [Reply(text=" \n")]) == "Advice"


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
