"""Opens feedback, searches and conversations with the limits of the settings."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Column

from copydesk.analytics.interactions import conversations, feedback, searches
from copydesk.analytics.interactions.conversations import Conversations, ConversationsFull
from copydesk.analytics.interactions.feedback import Feedback
from copydesk.analytics.interactions.searches import Searches, SearchesFull
from copydesk.analytics.interactions.storage_quota import FeedbackFull, QuotaReached, StorageQuota
from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings

MEGABYTE = 1_000_000


def open_feedback(database: Database, settings: Settings) -> Feedback:
    limits = settings.feedback_entries, settings.feedback_megabytes
    quota = _create_quota(database, feedback.TEXT_COLUMNS, limits, FeedbackFull)
    return Feedback(database, quota, settings.feedback_per_day)


def open_searches(database: Database, settings: Settings) -> Searches:
    limits = settings.search_entries, settings.search_megabytes
    return Searches(database, _create_quota(database, searches.TEXT_COLUMNS, limits, SearchesFull))


def open_conversations(database: Database, settings: Settings) -> Conversations:
    limits = settings.conversation_entries, settings.conversation_megabytes
    return Conversations(database, _create_quota(database, conversations.TEXT_COLUMNS, limits, ConversationsFull))


def _create_quota(
    database: Database, columns: Sequence[Column[Any]], limits: tuple[int, int], error: type[QuotaReached]
) -> StorageQuota:
    """Creates a quota with these limits of entries and megabytes."""
    max_entries, max_megabytes = limits
    return StorageQuota(database, columns, max_entries=max_entries, max_bytes=max_megabytes * MEGABYTE, error=error)


def delete_expired_entries(
    feedback: Feedback, searches: Searches, conversations: Conversations, projects: Iterable[Project], day: int
) -> int:
    """Deletes feedback, searches and questions that are older than their project keeps them. Returns how many."""
    options = [(project.id, project.collecting) for project in projects]
    return (
        feedback.delete_expired({project_id: each.feedback_days for project_id, each in options}, day)
        + searches.delete_expired({project_id: each.search_days for project_id, each in options}, day)
        + conversations.delete_expired({project_id: each.assistant_days for project_id, each in options}, day)
    )
