"""The analytics pages of interactions: feedback and its triage, searches, and questions to an assistant."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.interactions.cursors import decode_cursor
from copydesk.analytics.interactions.feedback import FeedbackFilter, FeedbackSource, FeedbackStatus
from copydesk.analytics.stores.base import DayRange
from copydesk.core.errors import InvalidRequest
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.reports.assistant import ConversationResponse
from copydesk.web.api.reports.feedback_schemas import PageFeedbackResponse, feedback_to_response
from copydesk.web.api.reports.searches import SearchesResponse
from copydesk.web.api.schemas import ApiModel
from copydesk.web.dashboard.auth.access import EditorPost, ViewerRequest
from copydesk.web.dashboard.readership.figures import parse_page_number
from copydesk.web.dashboard.readership.selection import parse_selection, render_readership, render_selection_error
from copydesk.web.responses.csv_reports import render_list_csv
from copydesk.web.responses.redirects import redirect

ROWS_PER_PAGE = 25
SOURCE_LABELS = {
    FeedbackSource.CONTEXTUAL: "Comment",
    FeedbackSource.THUMBS_ONLY: "Rating only",
    FeedbackSource.CODE_SNIPPET: "Code snippet",
    FeedbackSource.AGENT: "AI agent",
}
STATUS_LABELS = {
    FeedbackStatus.PENDING: "Pending",
    FeedbackStatus.IN_PROGRESS: "In progress",
    FeedbackStatus.RESOLVED: "Resolved",
    FeedbackStatus.DISMISSED: "Dismissed",
}
CLICK_LABELS = {"": "All", "yes": "With clicks", "no": "Without clicks"}
ANSWER_LABELS = {"": "All", "yes": "Answered", "no": "Unanswered"}
CHOICES = {"": None, "yes": True, "no": False}
FEEDBACK_PARAMS = ("range", "from", "to", "source", "status")
"""The parameters that a page of feedback keeps after an entry was changed."""

INTERACTION_LISTS = ("feedback", "feedback-by-page", "searches", "questions")
"""The lists that can be downloaded as CSV."""

router = APIRouter(prefix="/projects/{project_id}/readership")


@router.get("/feedback")
async def feedback_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    try:
        selection = parse_selection(project, query)
        number = parse_page_number(query)
        cursor = _parse_cursor(query)
        filter_by = _parse_feedback_filter(selection.chosen.days, query)
    except InvalidRequest as error:
        return render_selection_error("readership-feedback.html", signed_in, project, query, error)
    store = signed_in.desk.feedback
    offset = (number - 1) * ROWS_PER_PAGE
    pages, has_more = await run_in_thread(store.count_by_page, project.id, filter_by, ROWS_PER_PAGE, offset)
    entries, next_cursor = await run_in_thread(store.list_entries, project.id, filter_by, ROWS_PER_PAGE, cursor)
    kept = {name: query[name] for name in ("source", "status") if query.get(name)}
    return render_readership(
        "readership-feedback.html",
        200,
        signed_in,
        selection,
        report=True,
        pages=pages,
        has_more=has_more,
        number=number,
        offset=offset,
        entries=entries,
        next_cursor=next_cursor,
        cursor=cursor,
        kept=kept,
        kept_query=urlencode({name: query[name] for name in FEEDBACK_PARAMS if query.get(name)}),
        sources=SOURCE_LABELS,
        statuses=STATUS_LABELS,
    )


@router.post("/feedback/{feedback_id}")
async def change_feedback_status(project_id: str, feedback_id: str, request: Request, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    await run_in_thread(post.desk.feedback.get_entry, project.id, feedback_id)
    status = post.form.get("status")
    if status not in STATUS_LABELS:
        raise InvalidRequest("Choose one of the statuses.")
    await run_in_thread(post.desk.feedback.set_status, project.id, feedback_id, FeedbackStatus(status))
    query = request.query_params
    kept = {name: query[name] for name in FEEDBACK_PARAMS if query.get(name)}
    return redirect(f"/projects/{project.id}/readership/feedback" + (f"?{urlencode(kept)}" if kept else ""))


@router.get("/searches")
async def searches_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    try:
        selection = parse_selection(project, query)
        clicked = _parse_choice(query, "clicked")
        cursor = _parse_cursor(query)
    except InvalidRequest as error:
        return render_selection_error("readership-searches.html", signed_in, project, query, error)
    times = TimeRange.from_days(selection.chosen.days)
    report = await run_in_thread(
        lambda: signed_in.desk.searches.report(project.id, times, ROWS_PER_PAGE, cursor, is_clicked=CHOICES[clicked])
    )
    return render_readership(
        "readership-searches.html",
        200,
        signed_in,
        selection,
        report=report,
        cursor=cursor,
        choice=clicked,
        choices=CLICK_LABELS,
    )


@router.get("/questions")
async def questions_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    try:
        selection = parse_selection(project, query)
        answered = _parse_choice(query, "answered")
        cursor = _parse_cursor(query)
    except InvalidRequest as error:
        return render_selection_error("readership-questions.html", signed_in, project, query, error)
    store = signed_in.desk.conversations
    times = TimeRange.from_days(selection.chosen.days)
    questions, next_cursor = await run_in_thread(
        lambda: store.list_questions(project.id, times, ROWS_PER_PAGE, cursor, is_answered=CHOICES[answered])
    )
    callers = await run_in_thread(store.count_callers, project.id, times)
    return render_readership(
        "readership-questions.html",
        200,
        signed_in,
        selection,
        report=True,
        questions=questions,
        callers=callers,
        next_cursor=next_cursor,
        cursor=cursor,
        choice=answered,
        choices=ANSWER_LABELS,
    )


def render_interactions_csv(
    desk: Desk, project: Project, days: DayRange, name: str, query: Mapping[str, str], max_rows: int
) -> str:
    """Returns the CSV of the API, with every row that the filter of the page finds, in the same order.

    Raises InvalidRequest if there are too many."""
    times = TimeRange.from_days(days)
    rows: Sequence[ApiModel]
    has_more: bool
    if name == "searches":
        is_clicked = CHOICES[_parse_choice(query, "clicked")]
        report = desk.searches.report(project.id, times, max_rows, is_clicked=is_clicked)
        rows, has_more = SearchesResponse.from_report(report).searches, report.next_cursor is not None
    elif name == "questions":
        is_answered = CHOICES[_parse_choice(query, "answered")]
        questions, next_cursor = desk.conversations.list_questions(project.id, times, max_rows, is_answered=is_answered)
        rows, has_more = [ConversationResponse.from_question(each) for each in questions], next_cursor is not None
    elif name == "feedback":
        filter_by = _parse_feedback_filter(days, query)
        entries, next_cursor = desk.feedback.list_entries(project.id, filter_by, max_rows)
        rows, has_more = [feedback_to_response(entry) for entry in entries], next_cursor is not None
    else:
        pages, has_more = desk.feedback.count_by_page(project.id, _parse_feedback_filter(days, query), max_rows, 0)
        rows = [PageFeedbackResponse.from_page_feedback(page) for page in pages]
    if has_more:
        raise InvalidRequest(f"This range has more than {max_rows:,} rows. Choose a shorter range, or use the API.")
    return render_list_csv("assistant" if name == "questions" else name, rows)


def _parse_feedback_filter(days: DayRange, query: Mapping[str, str]) -> FeedbackFilter:
    source, status = query.get("source", ""), query.get("status", "")
    if source and source not in SOURCE_LABELS:
        raise InvalidRequest("There is no such source of feedback.")
    if status and status not in STATUS_LABELS:
        raise InvalidRequest("There is no such status of feedback.")
    return FeedbackFilter(
        TimeRange.from_days(days),
        FeedbackSource(source) if source else None,
        (FeedbackStatus(status),) if status else (),
    )


def _parse_cursor(query: Mapping[str, str]) -> str | None:
    cursor = query.get("cursor")
    if cursor is not None:
        decode_cursor(cursor)
    return cursor


def _parse_choice(query: Mapping[str, str], name: str) -> str:
    choice = query.get(name, "")
    if choice not in CHOICES:
        raise InvalidRequest(f"{name}: must be yes or no.")
    return choice
