"""Opens feedback, searches and conversations with the limits of the settings."""

from copydesk.analytics.interactions import conversations, feedback, searches
from copydesk.analytics.interactions.conversations import Conversations, ConversationsFull
from copydesk.analytics.interactions.feedback import Feedback
from copydesk.analytics.interactions.searches import Searches, SearchesFull
from copydesk.analytics.interactions.storage_quota import FeedbackFull, StorageQuota
from copydesk.core.db.database import Database
from copydesk.core.settings import Settings

MEGABYTE = 1_000_000


def open_feedback(database: Database, settings: Settings) -> Feedback:
    quota = StorageQuota(
        database,
        feedback.TEXT_COLUMNS,
        max_entries=settings.feedback_entries,
        max_bytes=settings.feedback_megabytes * MEGABYTE,
        error=FeedbackFull,
    )
    return Feedback(database, quota, settings.feedback_per_day)


def open_searches(database: Database, settings: Settings) -> Searches:
    quota = StorageQuota(
        database,
        searches.TEXT_COLUMNS,
        max_entries=settings.search_entries,
        max_bytes=settings.search_megabytes * MEGABYTE,
        error=SearchesFull,
    )
    return Searches(database, quota)


def open_conversations(database: Database, settings: Settings) -> Conversations:
    quota = StorageQuota(
        database,
        conversations.TEXT_COLUMNS,
        max_entries=settings.conversation_entries,
        max_bytes=settings.conversation_megabytes * MEGABYTE,
        error=ConversationsFull,
    )
    return Conversations(database, quota)
