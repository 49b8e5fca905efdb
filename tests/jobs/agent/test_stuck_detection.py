"""A model that is stuck is helped with a sentence, twice; then the run ends with a reason."""

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


def test_a_model_that_gets_on_is_left_alone() -> None:
    assert judged(LOOKED) == "NoneType"
    assert judged(LOOKED, REFUSED, turn("read", "1 Hello", path="b.md")) == "NoneType"


@pytest.mark.parametrize("stuck", [EMPTY, UNKNOWN, MISFITTING], ids=["empty", "unknown tool", "misfit"])
def test_a_stuck_model_is_advised_twice_and_then_given_up(stuck: Conversation) -> None:
    assert judged(stuck) == "Advice"
    assert judged(stuck, stuck) == "Advice"
    assert judged(stuck, stuck, stuck) == "GiveUp"


def test_a_refused_call_is_worth_making_once_and_an_answered_one_twice() -> None:
    assert judged(REFUSED) == "NoneType"
    assert judged(REFUSED, REFUSED) == "Advice"
    assert judged(*[REFUSED] * 4) == "GiveUp"
    assert judged(LOOKED, LOOKED) == "NoneType"
    assert judged(*[LOOKED] * 3) == "Advice"
    assert judged(*[LOOKED] * 5) == "GiveUp"


def test_a_model_that_goes_round_in_circles_is_given_up() -> None:
    circle = [turn("read", "1", path=path) for path in ("a.md", "b.md")]
    assert judged(*circle * 2) == "NoneType"
    assert judged(*circle * 3, circle[0]) == "GiveUp"


def test_a_page_may_be_read_again_long_after() -> None:
    others = [turn("read", "1", path=f"{n}.md") for n in range(12)]
    assert judged(LOOKED, LOOKED, *others, LOOKED) == "NoneType"


def test_the_same_call_with_another_answer_is_no_repetition() -> None:
    assert judged(*(turn("diff", f"+ {n}") for n in range(6))) == "NoneType"


def test_one_good_call_in_a_round_is_enough() -> None:
    both = Reply(calls=(ToolCall(id="a", name="shell", arguments={}), ToolCall(id="b", name="diff", arguments={})))
    bad = ToolResult(call_id="a", name="shell", ok=False, text="There is no tool shell.")
    good = ToolResult(call_id="b", name="diff", ok=True, text="Nothing has been changed.")
    assert judged([both, ToolResults(results=(bad, good))]) == "NoneType"


def test_something_new_in_between_starts_the_count_again() -> None:
    assert judged(EMPTY, EMPTY, LOOKED, EMPTY, EMPTY) == "Advice"


def test_a_message_from_a_person_starts_the_count_again() -> None:
    assert judged(EMPTY, EMPTY, [Prompt(text="Well?")], EMPTY) == "Advice"


def test_words_alone_are_taken_for_the_end_once_finish_was_asked_for_and_tools_were_used() -> None:
    assert judged(LOOKED, WORDS) == "Advice"
    assert judged(LOOKED, WORDS, WORDS) == "FinishedInText"
    found = judge_latest_turn([*ASKED, *LOOKED, *WORDS, Reply(text="Really.")], TOOLS)
    assert found == FinishedInText("Really.")


def test_words_alone_from_a_model_that_never_used_a_tool_are_no_work() -> None:
    assert judged(WORDS, WORDS) == "Advice"
    assert judged(WORDS, WORDS, WORDS) == "GiveUp"
    found = judge_latest_turn([*ASKED, *WORDS * 3], TOOLS)
    assert isinstance(found, GiveUp)
    assert found.reason.startswith("The model answered with text alone and used no tool, 3 turns in a row")


def test_blanks_are_no_words() -> None:
    assert judged(LOOKED, EMPTY, [Reply(text=" \n")]) == "Advice"


def test_advice_on_calls_stands_in_their_answer_and_other_advice_follows_as_a_prompt() -> None:
    seen = add_advice([*ASKED, *UNKNOWN, *EMPTY], TOOLS)
    answered, prompt = seen[2], seen[-1]
    assert isinstance(answered, ToolResults)
    assert answered.results[0].text.startswith("There is no tool shell.\n\n[Copydesk] There is no such tool.")
    assert isinstance(prompt, Prompt)
    assert prompt.text.startswith("[Copydesk] Your last answer was empty.")
    assert "the job ends here" in prompt.text


def test_advice_once_given_is_given_again_when_the_run_is_resumed() -> None:
    held = [*ASKED, *UNKNOWN, *EMPTY, *LOOKED, *WORDS]
    for end in range(1, len(held) + 1):
        shorter = add_advice(held[:end], TOOLS)
        assert add_advice(held, TOOLS)[: len(shorter)] == shorter


def test_good_turns_are_shown_as_they_were() -> None:
    held = [*ASKED, *LOOKED, *REFUSED]
    assert add_advice(held, TOOLS) == held
    assert not isinstance(judge_latest_turn(held, TOOLS), Advice)
