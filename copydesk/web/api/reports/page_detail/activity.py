"""What readers, commits and jobs say about one page, for the API and the dashboard."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.interactions.feedback import FeedbackEntry, FeedbackFilter, PageFeedback
from copydesk.analytics.interactions.searches import LeadingSearch
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_pool, run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.storage.lookups.page_jobs import PageJob, list_page_jobs
from copydesk.jobs.workflow.isolation.page_lookups import PageCommit

MAX_COMMENTS = 5
MAX_SEARCHES = MAX_JOBS = 10
LOOKUP_TIMEOUT_SECONDS = 3.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PageActivity:
    ratings: PageFeedback
    comments: Sequence[FeedbackEntry]
    """Newest first."""
    searches: Sequence[LeadingSearch]
    commit: PageCommit | None
    jobs: Sequence[PageJob]
    """Newest first, of all time."""


async def load_page_activity(desk: Desk, project: Project, path: str, times: TimeRange) -> PageActivity:
    """Loads the feedback and searches of this time, the last commit and the jobs of a page."""
    filter_by = FeedbackFilter(times, path=path)
    with_comment = FeedbackFilter(times, path=path, has_comment=True)
    commit = await find_last_commit(desk, project, path)

    def load() -> PageActivity:
        pages, _ = desk.feedback.count_by_page(project.id, filter_by, limit=1)
        comments, _ = desk.feedback.list_entries(project.id, with_comment, MAX_COMMENTS)
        return PageActivity(
            ratings=pages[0] if pages else PageFeedback(path, 0, 0, 0, 0, 0),
            comments=comments,
            searches=desk.searches.list_leading_to(project.id, path, times, MAX_SEARCHES),
            commit=commit,
            jobs=list_page_jobs(desk.database, project.id, path, commit.path if commit else None, MAX_JOBS),
        )

    return await run_in_thread(load)


async def find_last_commit(
    desk: Desk, project: Project, path: str, timeout_seconds: float = LOOKUP_TIMEOUT_SECONDS
) -> PageCommit | None:
    """Returns the last commit that touched a page; None if it is unknown, takes too long or cannot be read.

    A lookup that takes too long goes on in its thread, and its answer is cached for the next request.
    """
    try:
        lookup = run_in_pool("pages", desk.page_lookups.find_page_commit, project, path)
        return await asyncio.wait_for(lookup, timeout_seconds)
    except TimeoutError:
        log.info("the history of a page of project %s took too long to read", project.id)
    except Exception as error:  # an unreadable repository must not hide the numbers
        log.warning("the history of a page of project %s cannot be read: %s", project.id, error)
    return None
