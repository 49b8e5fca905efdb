"""Tells people of an automation's run on its pull request: asks authors to review, and comments what a run added."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from copydesk.core.text.truncation import truncate
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.job import Job, JobFailed, job_page_url
from copydesk.jobs.publish.forge_retry import Pause, retry_while_unavailable
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.unique_comments import add_comment_once
from copydesk.jobs.publish.messages import neutralize_markup, to_one_line
from copydesk.jobs.publish.pull_body import Round, format_day, render_origins
from copydesk.jobs.storage.message_origins import MessageOrigin
from copydesk.jobs.storage.records import EventKind, NewEvent
from copydesk.jobs.workflow.publication.author_reviews import AuthorReviews, ReviewRequests
from copydesk.jobs.workflow.publication.rounds import read_origins

log = logging.getLogger(__name__)

REVIEWERS_STEP, COMMENT_STEP = "reviewers", "comment"
ANNOUNCEMENT_TIMEOUT_SECONDS = 120.0
"""How long a run waits for a forge that does not respond. The pull request is open, and its text tells the same."""
MAX_COMMENT_SUMMARY_CHARS = 1000


@dataclass(frozen=True)
class RunAnnouncement:
    """The pull request is open or updated already, so a failure here does not fail the run."""

    journal: Journal
    job: Job
    forge: Forge
    reviews: AuthorReviews
    base_url: str
    check_still_active: Callable[[], None]
    pause: Pause
    deadline: float

    def announce(self, pull_link: str, latest: Round, commit: str, *, is_appended: bool) -> None:
        """Announces a run of an automation. A run that a person requested needs no announcement."""
        number = parse_pull_number(pull_link)
        origins = read_origins(self.journal)
        if number is None or not origins:
            return
        if any(origin.asks_authors for origin in origins):
            self._request_reviews(number, origins)
        if is_appended:
            self._comment(number, origins[-1].automation, latest, commit)

    def _request_reviews(self, number: int, origins: Sequence[MessageOrigin]) -> None:
        """Asks the authors of the triggering commits to review. The job's events say who was asked, or why not."""

        def request() -> ReviewRequests:
            self.check_still_active()
            return self.reviews.request(number, origins)

        with self.journal.step(REVIEWERS_STEP, ReviewRequests) as step:
            if not step.is_done:
                try:
                    result = retry_while_unavailable(request, self.pause, self._deadline)
                except JobFailed as failure:
                    result = ReviewRequests(notes=[str(failure)])
                step.save(result, events=[NewEvent(EventKind.REVIEWERS, result.model_dump())])

    def _comment(self, number: int, automation: str, latest: Round, commit: str) -> None:
        """Comments what this run added to the pull request, once, although an attempt may crash in between."""
        text = render_comment(automation, latest, commit, job_page_url(self.base_url, self.job))
        claim = self.journal.claim
        may_exist = claim.attempt > 1

        def post() -> None:
            nonlocal may_exist
            self.check_still_active()
            is_retry, may_exist = may_exist, True
            marker = f"run {claim.run_id}"
            add_comment_once(self.forge, number, text, marker, since=claim.created_at, may_exist=is_retry)

        with self.journal.step(COMMENT_STEP, bool) as step:
            if not step.is_done:
                is_posted = True
                try:
                    retry_while_unavailable(post, self.pause, self._deadline)
                except JobFailed as failure:
                    log.warning("job %s: its pull request gets no comment: %s", self.job.id, failure)
                    is_posted = False
                step.save(is_posted)

    @property
    def _deadline(self) -> float:
        return min(self.deadline, time.monotonic() + ANNOUNCEMENT_TIMEOUT_SECONDS)


def render_comment(automation: str, latest: Round, commit: str, job_url: str) -> str:
    """Returns what started the run, what it added, and where to read more. Quotes no prompt."""
    name = neutralize_markup(to_one_line(automation, 100))
    fact = f"The automation “{name}” ran again on {format_day(latest.requested_at)} and added commit {commit[:12]}."
    summary = neutralize_markup(truncate(latest.summary.strip(), MAX_COMMENT_SUMMARY_CHARS))
    started = f"What started it: {render_origins(latest.origins)}" if latest.origins else ""
    parts = (fact, started, summary, f"[The job]({job_url}) shows the details.")
    return "\n\n".join(part for part in parts if part)
