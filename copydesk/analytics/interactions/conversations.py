"""Questions that readers asked an assistant, and its answers."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, func, select

from copydesk.analytics.date_ranges import ALL_TIME, TimeRange
from copydesk.analytics.interactions.interaction_rows import InteractionRows, read_page, rows_in_range
from copydesk.analytics.interactions.storage_quota import QuotaReached, count_bytes
from copydesk.analytics.interactions.text_fields import clean_text
from copydesk.analytics.tables import conversations
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.errors import NotFound
from copydesk.core.ids import new_id
from copydesk.core.projects.missing_projects import refuse_missing_project

MAX_QUESTION_CHARS, MAX_ANSWER_CHARS = 8_000, 64_000
MAX_SOURCES = 50
TEXT_COLUMNS = (conversations.c.query, conversations.c.response, conversations.c.sources)


class Caller(StrEnum):
    """Where a question was asked."""

    WEB = "web"
    API = "api"
    OTHER = "other"


class ResponseType(StrEnum):
    """The kind of an assistant's response."""

    ANSWER = "answer"
    CLARIFYING_QUESTION = "clarifying_question"


class ConversationsFull(QuotaReached):
    code = "conversations_full"
    message = (
        "This project has reached the limit of stored questions, which the server's settings set "
        "(COPYDESK_CONVERSATION_ENTRIES, COPYDESK_CONVERSATION_MEGABYTES)."
    )


class ThreadNotFound(NotFound):
    code = "thread_not_found"
    message = "Thread not found in this project."


@dataclass(frozen=True)
class Source:
    """A page that an answer cites."""

    title: str
    url: str


@dataclass(frozen=True)
class NewQuestion:
    thread_id: str
    query: str
    response: str
    at: int
    sources: Sequence[Source] = ()
    answered: bool = True
    response_type: ResponseType | None = None
    category: str | None = None
    page_url: str | None = None
    caller: Caller = Caller.OTHER
    visitor: int | None = None
    event: str | None = None
    """The hash of the event ID."""


@dataclass(frozen=True)
class Question:
    id: str
    thread_id: str
    query: str
    response: str
    response_type: ResponseType | None
    sources: Sequence[Source]
    answered: bool
    category: str | None
    page_url: str | None
    caller: str
    created_at: int


QUESTION_COLUMNS = tuple(conversations.c[name] for name in Question.__dataclass_fields__)


class Conversations(InteractionRows):
    table = conversations

    def add_all(self, project_id: str, questions: Sequence[NewQuestion]) -> int:
        """Stores questions in one transaction, durable on return. Returns how many were not known before."""
        rows = [_to_row(project_id, question) for question in questions]
        texts = [text for row in rows for text in (row["query"], row["response"], json.dumps(row["sources"]))]
        self._quota.reserve(project_id, count_bytes(*texts), len(rows))
        try:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                return sum(insert_if_absent(tx, conversations, row) for row in rows)
        except BaseException:
            self._quota.invalidate(project_id)  # the quota counted rows that were not stored
            raise

    def list_questions(
        self,
        project_id: str,
        times: TimeRange = ALL_TIME,
        limit: int = 100,
        cursor: str | None = None,
        *,
        is_answered: bool | None = None,
    ) -> tuple[list[Question], str | None]:
        """Returns questions, newest first, and the cursor of the next page (None on the last page)."""
        query = select(*QUESTION_COLUMNS).where(*rows_in_range(conversations, project_id, times))
        if is_answered is not None:
            query = query.where(conversations.c.answered.is_(is_answered))
        with self.database.read() as tx:
            rows, next_cursor = read_page(tx, conversations, query, limit, cursor)
        return [_question_from_row(row) for row in rows], next_cursor

    def list_thread(self, project_id: str, thread_id: str) -> list[Question]:
        """Returns the questions of a thread, oldest first. Raises ThreadNotFound if there are none."""
        if "\x00" in thread_id:  # PostgreSQL would refuse the query
            raise ThreadNotFound
        in_thread = conversations.c.project_id == project_id, conversations.c.thread_id == thread_id
        query = select(*QUESTION_COLUMNS).where(*in_thread)
        with self.database.read() as tx:
            rows = tx.execute(query.order_by(conversations.c.created_at, conversations.c.id)).all()
        if not rows:
            raise ThreadNotFound
        return [_question_from_row(row) for row in rows]

    def count_callers(self, project_id: str, times: TimeRange = ALL_TIME) -> dict[Caller, int]:
        query = select(conversations.c.caller, func.count().label("questions"))
        query = query.where(*rows_in_range(conversations, project_id, times)).group_by(conversations.c.caller)
        with self.database.read() as tx:
            counts = {row.caller: row.questions for row in tx.execute(query)}
        return {caller: counts.get(caller, 0) for caller in Caller}


def _to_row(project_id: str, question: NewQuestion) -> dict[str, Any]:
    return {
        "id": new_id("conv"),
        "project_id": project_id,
        "thread_id": question.thread_id,
        "query": clean_text(question.query),
        "response": clean_text(question.response),
        "response_type": question.response_type,
        "sources": [asdict(source) for source in question.sources],
        "answered": question.answered,
        "category": question.category,
        "page_url": question.page_url,
        "caller": question.caller,
        "visitor": question.visitor,
        "event": question.event,
        "created_at": question.at,
    }


def _question_from_row(row: Row[Any]) -> Question:
    response_type = None if row.response_type is None else ResponseType(row.response_type)
    sources = tuple(Source(**source) for source in row.sources)
    return Question(**{**row._asdict(), "response_type": response_type, "sources": sources})
