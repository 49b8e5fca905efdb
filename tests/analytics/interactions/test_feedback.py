"""Readers' feedback about pages, on both databases."""

import pytest

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.interactions.feedback import (
    MAX_COMMENT_CHARS,
    TEXT_COLUMNS,
    Feedback,
    FeedbackDetails,
    FeedbackFilter,
    FeedbackNotFound,
    FeedbackSource,
    FeedbackStatus,
)
from copydesk.analytics.interactions.storage_quota import FeedbackFull, StorageQuota
from copydesk.core.clock import DAY
from copydesk.core.errors import InvalidRequest
from copydesk.desk import Desk

NOON = 20_500 * DAY + DAY // 2


@pytest.fixture
def feedback(desk: Desk) -> Feedback:
    return desk.feedback


def test_entry_that_arrives_late_is_listed_at_its_own_time(feedback: Feedback, project: str) -> None:
    for path, at in (("/today", NOON), ("/imported", NOON - 30 * DAY), ("/yesterday", NOON - DAY)):
        feedback.add(project, path, True, None, at)
    first, cursor = feedback.list_entries(project, limit=2)
    rest, _ = feedback.list_entries(project, limit=2, cursor=cursor)
    assert [entry.path for entry in [*first, *rest]] == ["/today", "/yesterday", "/imported"]


def test_cursor_pages_follow_each_other_without_gaps(feedback: Feedback, project: str) -> None:
    made = [feedback.add(project, f"/{n}", n % 2 == 0, None, NOON + n) for n in range(7)]
    for limit in (1, 2, 3, 6, 7, 8):
        found, cursor = feedback.list_entries(project, limit=limit)
        while cursor is not None:
            more, cursor = feedback.list_entries(project, limit=limit, cursor=cursor)
            assert more, "where there is a cursor there is more"
            found += more
        assert found == made[::-1]


def test_date_range_limits_list_and_sums(feedback: Feedback, project: str) -> None:
    begin, end = 20_500 * DAY, 20_501 * DAY
    for at in (begin - 1, begin, end - 1, end):
        feedback.add(project, "/", True, None, at)
    day = FeedbackFilter(TimeRange(begin, end))
    assert [remark.created_at for remark in feedback.list_entries(project, day)[0]] == [end - 1, begin]
    assert [page.total for page in feedback.count_by_page(project, day)[0]] == [2]
    assert feedback.list_entries(project, FeedbackFilter(TimeRange(9 * DAY, 9 * DAY))) == ([], None)


def test_page_sums_are_ordered_by_count_then_code_point(feedback: Feedback, project: str) -> None:
    said: list[tuple[str, bool | None, str | None]] = [
        *(("/b", True, None), ("/b", False, "no"), ("/b", None, "a comment alone")),
        *(("/é", True, None), ("/Z", False, None), ("/a", True, "yes"), ("/_", True, None)),
    ]
    for path, helpful, comment in said:
        feedback.add(project, path, helpful, comment, NOON)
    pages, more = feedback.count_by_page(project)
    assert [page.path for page in pages] == ["/b", "/Z", "/_", "/a", "/é"]
    assert vars(pages[0]) == {
        "path": "/b",
        "thumbs_up": 1,
        "thumbs_down": 1,
        "code": 0,
        "comments": 2,
        "total": 3,
    }
    assert not more
    assert [feedback.count_by_page(project, limit=2, offset=n)[1] for n in (0, 2, 3, 4, 1 << 40)] == [
        *(True, True, False, False, False)
    ]


def test_comment_keeps_line_breaks_and_loses_control_characters(feedback: Feedback, project: str) -> None:
    added = feedback.add(project, "/a\x00\nb", None, " one\r\ntwo\tthree\x00\x1b[31m\ud800 👩‍💻 \n", NOON)
    [found] = feedback.list_entries(project)[0]
    assert found == added
    assert (found.path, found.comment) == ("/ab", "one\ntwo\tthree[31m 👩‍💻")


@pytest.mark.parametrize(
    ("path", "helpful", "comment"),
    [
        ("/", None, None),
        ("/", None, " \x00\n"),
        ("/", True, "x" * (MAX_COMMENT_CHARS + 1)),
        ("docs", True, None),
        ("", True, None),
        ("/" + "é" * 1024, True, None),
    ],
)
def test_empty_or_too_long_feedback_is_refused(
    feedback: Feedback, project: str, path: str, helpful: bool | None, comment: str | None
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        feedback.add(project, path, helpful, comment, NOON)
    assert refusal.value.details[0].field in ("path", "helpful", "comment")
    assert feedback.list_entries(project) == ([], None)


def test_feedback_is_deleted_by_day_and_by_retention(desk: Desk, feedback: Feedback, project: str) -> None:
    other = desk.projects.create("Other", repository="/srv/docs.git", ref="main", actor="ada").id
    for days in (3, 2, 1, 0):
        for each in (project, other):
            feedback.add(each, f"/{days}", True, None, NOON - days * DAY)
    today = NOON // DAY
    assert feedback.delete_expired({project: 2, other: None}, today) == 1
    assert feedback.delete_expired({project: 2, other: None}, today) == 0
    assert feedback.delete_entries(project, TimeRange((today - 1) * DAY, today * DAY)) == 1
    assert [remark.path for remark in feedback.list_entries(project)[0]] == ["/0", "/2"]
    assert len(feedback.list_entries(other)[0]) == 4


def test_existing_feedback_counts_toward_the_quota(desk: Desk, project: str) -> None:
    def with_room_for(entries: int, size: int) -> Feedback:
        quota = StorageQuota(desk.database, TEXT_COLUMNS, max_entries=entries, max_bytes=size, error=FeedbackFull)
        return Feedback(desk.database, quota, max_per_day=100)

    desk.feedback.add(project, "/é", None, "äöü", NOON)
    desk.feedback.add(project, "/é", True, None, NOON)
    for entries, size in ((2, 1_000), (100, 3 + 6 + 3 + 2)):
        with pytest.raises(FeedbackFull):
            with_room_for(entries, size).add(project, "/aa", True, None, NOON)
    with_room_for(3, 3 + 6 + 3 + 3).add(project, "/aa", True, None, NOON)


def test_deleting_a_projects_feedback_leaves_other_projects(desk: Desk, feedback: Feedback, project: str) -> None:
    other = desk.projects.create("Other", repository="/srv/docs.git", ref="main", actor="ada").id
    kept = feedback.add(other, "/", True, None, NOON)
    feedback.add(project, "/", True, None, NOON)
    assert feedback.delete_entries(project) == 1
    assert feedback.list_entries(project) == ([], None)
    assert feedback.list_entries(other) == ([kept], None)


@pytest.mark.parametrize(
    ("helpful", "comment", "details", "source"),
    [
        (True, None, FeedbackDetails(), "thumbs_only"),
        (True, "Good.", FeedbackDetails(), "contextual"),
        (None, "Good.", FeedbackDetails(), "contextual"),
        (True, None, FeedbackDetails(contact="ada@example.org"), "contextual"),
        (False, "Wrong.", FeedbackDetails(source=FeedbackSource.AGENT), "agent"),
        (None, None, FeedbackDetails(code="x = 1", filename="a.py", lang="python"), "code_snippet"),
        (True, None, FeedbackDetails(source=FeedbackSource.CONTEXTUAL), "contextual"),
        (True, None, FeedbackDetails(source=FeedbackSource.CODE_SNIPPET), "thumbs_only"),
        (True, None, FeedbackDetails(source=FeedbackSource.AGENT, code="x = 1"), "code_snippet"),
    ],
)
def test_source_follows_from_what_was_sent(
    feedback: Feedback, project: str, helpful: bool | None, comment: str | None, details: FeedbackDetails, source: str
) -> None:
    added = feedback.add(project, "/", helpful, comment, NOON, details)
    assert added is not None
    assert (added.source, added.status) == (source, "pending")
    assert (added.contact, added.code, added.filename, added.lang) == (
        *(details.contact, details.code),
        *(details.filename, details.lang),
    )
    assert feedback.list_entries(project)[0] == [added]


def test_entries_are_filtered_by_source_and_status(feedback: Feedback, project: str) -> None:
    thumb, remark, snippet = (
        feedback.add(project, "/", True, None, NOON),
        feedback.add(project, "/", None, "Hm", NOON),
        feedback.add(project, "/", None, None, NOON, FeedbackDetails(code="x")),
    )
    assert thumb is not None
    assert remark is not None
    assert snippet is not None
    feedback.set_status(project, thumb.id, FeedbackStatus.RESOLVED)
    feedback.set_status(project, snippet.id, FeedbackStatus.DISMISSED)

    def list_ids(**options: object) -> list[str]:
        return [entry.id for entry in feedback.list_entries(project, FeedbackFilter(**options))[0]]  # type: ignore[arg-type]

    assert list_ids(source=FeedbackSource.CONTEXTUAL) == [remark.id]
    assert list_ids(statuses=[FeedbackStatus.PENDING]) == [remark.id]
    assert list_ids(statuses=[FeedbackStatus.RESOLVED, FeedbackStatus.DISMISSED]) == [snippet.id, thumb.id]
    [page] = feedback.count_by_page(project, FeedbackFilter(source=FeedbackSource.CODE_SNIPPET))[0]
    assert (page.code, page.total) == (1, 1)


def test_status_of_another_projects_entry_is_not_changed(desk: Desk, feedback: Feedback, project: str) -> None:
    other = desk.projects.create("Other", repository="/srv/docs.git", ref="main", actor="ada").id
    entry = feedback.add(project, "/", True, None, NOON)
    assert entry is not None
    for project_id, entry_id in ((other, entry.id), (project, "fb_"), (project, "fb_" + "0" * 26)):
        with pytest.raises(FeedbackNotFound):
            feedback.set_status(project_id, entry_id, FeedbackStatus.RESOLVED)
    assert feedback.list_entries(project)[0][0].status is FeedbackStatus.PENDING


def test_repeated_event_is_stored_once(feedback: Feedback, project: str) -> None:
    details = FeedbackDetails(event="0" * 32)
    assert feedback.add(project, "/", True, None, NOON, details) is not None
    assert feedback.add(project, "/", True, None, NOON, details) is None
    assert len(feedback.list_entries(project)[0]) == 1
