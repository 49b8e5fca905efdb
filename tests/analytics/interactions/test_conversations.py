"""Questions to an assistant, on both databases."""

import pytest

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.interactions.conversations import (
    TEXT_COLUMNS,
    Caller,
    Conversations,
    ConversationsFull,
    NewQuestion,
    ResponseType,
    Source,
    ThreadNotFound,
)
from copydesk.analytics.interactions.storage_quota import StorageQuota
from copydesk.core.clock import DAY
from copydesk.desk import Desk

NOON = 20_500 * DAY + DAY // 2


def ask(desk: Desk, project: str, *questions: NewQuestion) -> int:
    return desk.conversations.add_all(project, questions)


def list_queries(desk: Desk, project: str, *, is_answered: bool | None = None) -> list[str]:
    questions, _ = desk.conversations.list_questions(project, is_answered=is_answered)
    return [question.query for question in questions]


def test_question_is_stored_with_everything_that_was_sent(desk: Desk, project: str) -> None:
    new = NewQuestion(
        thread_id="t-1",
        query="How do I\nsign in?\x00",
        response="With a key.",
        at=NOON,
        sources=[Source("Keys", "https://docs.example.com/keys")],
        response_type=ResponseType.ANSWER,
        category="accounts",
        page_url="/start",
        caller=Caller.WEB,
        visitor=7,
        event="0" * 32,
    )
    assert ask(desk, project, new) == 1
    [question] = desk.conversations.list_questions(project)[0]
    assert (question.query, question.response, question.answered) == ("How do I\nsign in?", "With a key.", True)
    assert (question.response_type, question.category, question.page_url) == ("answer", "accounts", "/start")
    assert list(question.sources) == list(new.sources)
    assert ask(desk, project, new) == 0, "the event was sent before"


def test_cursor_pages_follow_each_other_by_time(desk: Desk, project: str) -> None:
    times = [NOON, NOON + 5, NOON, NOON - 5, NOON + 5, NOON, NOON + 9]
    ask(desk, project, *(NewQuestion("t", str(n), "", at) for n, at in enumerate(times)))
    whole = list_queries(desk, project)
    assert [times[int(query)] for query in whole] == sorted(times, reverse=True)
    for limit in (1, 2, 3, 6, 7, 8):
        found, cursor = desk.conversations.list_questions(project, limit=limit)
        while cursor is not None:
            more, cursor = desk.conversations.list_questions(project, limit=limit, cursor=cursor)
            assert more, "where there is a cursor there is more"
            found += more
        assert [question.query for question in found] == whole


def test_range_limits_lists_and_counts_to_the_millisecond(desk: Desk, project: str) -> None:
    ask(
        desk,
        project,
        *(NewQuestion("t", str(at - NOON), "", at, caller=Caller.API) for at in range(NOON - 1, NOON + 2)),
    )
    times = TimeRange(NOON, NOON + 1)
    assert [question.query for question in desk.conversations.list_questions(project, times)[0]] == ["0"]
    assert desk.conversations.count_callers(project, times) == {"web": 0, "api": 1, "other": 0}


def test_questions_are_selected_by_answer(desk: Desk, project: str) -> None:
    ask(desk, project, NewQuestion("t", "a", "Yes.", NOON), NewQuestion("t", "b", "", NOON, answered=False))
    assert list_queries(desk, project, is_answered=True) == ["a"]
    assert list_queries(desk, project, is_answered=False) == ["b"]


def test_thread_is_oldest_first_and_belongs_to_its_project(desk: Desk, project: str) -> None:
    other = desk.projects.create("Other", repository="/srv/docs.git", ref="main", actor="ada").id
    ask(desk, project, NewQuestion("t", "second", "", NOON + 1), NewQuestion("t", "first", "", NOON))
    ask(desk, project, NewQuestion("u", "another", "", NOON))
    assert [question.query for question in desk.conversations.list_thread(project, "t")] == ["first", "second"]
    for project_id, thread_id in ((other, "t"), (project, "v"), (project, "t\x00")):
        with pytest.raises(ThreadNotFound):
            desk.conversations.list_thread(project_id, thread_id)


def test_quota_counts_everything_that_was_sent(desk: Desk, project: str) -> None:
    def open_store() -> Conversations:
        quota = StorageQuota(desk.database, TEXT_COLUMNS, max_entries=10, max_bytes=1_000, error=ConversationsFull)
        return Conversations(desk.database, quota)

    question = NewQuestion("t", "How?", "So.", NOON, sources=[Source("Ünïcode" * 20, "/a"), Source("Keys", "/b" * 100)])
    store = open_store()
    assert store.add_all(project, [question]) == 1
    for full in (store, open_store()):  # as counted, and as measured
        with pytest.raises(ConversationsFull):
            full.add_all(project, [question])
    assert store.delete_entries(project) == 1
    assert store.add_all(project, [question]) == 1


def test_questions_are_deleted_by_visitor_and_by_retention(desk: Desk, project: str) -> None:
    ask(desk, project, *(NewQuestion("t", str(age), "", NOON - age * DAY, visitor=age + 1) for age in range(4)))
    today = NOON // DAY
    assert desk.conversations.list_days(project) == {today - age for age in range(4)}
    assert desk.conversations.delete_visitors(project, {1}) == 1
    assert desk.conversations.delete_expired({project: 2}, today) == 1
    assert list_queries(desk, project) == ["1", "2"]
    assert desk.conversations.delete_entries(project) == 2
