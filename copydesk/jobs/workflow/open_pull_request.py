"""Opens or updates the pull request of a run, as a page of this service or on the project's forge."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import BaseModel

from copydesk.core.projects.projects import Project
from copydesk.jobs.execution.journal import Journal, Step
from copydesk.jobs.job import Job
from copydesk.jobs.publish.forge_retry import Pause
from copydesk.jobs.publish.forges import local
from copydesk.jobs.publish.forges.forge import Forge, Proposal
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.pull_requests import create_or_update_pull
from copydesk.jobs.publish.messages import format_pull_title
from copydesk.jobs.storage.records import EventKind, NewEvent

RUN_SEPARATOR = "\n---\n\n"


class OpenedPullRequest(BaseModel):
    link: str
    title: str
    text: str
    """The description that this run wrote. The pull request's body combines the descriptions of all runs."""
    draft: bool = False
    """Whether it is a draft on the forge: a ready pull request stays ready, and some repositories have no drafts."""
    notes: list[str] = []


@dataclass(frozen=True)
class PullRequestOpener:
    """Opens or updates the pull request of a run. The job's diff is between the commits `base` and `head`."""

    job: Job
    project: Project
    title: str
    summary: str
    text: str
    draft: bool
    base: str
    head: str
    unsure: list[str] = field(default_factory=list)

    def open_locally(self, journal: Journal, base_url: str) -> OpenedPullRequest:
        """Opens or updates a local pull request, in the transaction that stores the step."""
        title = format_pull_title(self.title)
        body = self._combine_bodies(journal)
        with journal.step("open", OpenedPullRequest) as step:
            if not step.is_done:
                with step.transaction() as tx:
                    pull = local.find_or_open_pull(journal.database, tx, self.job, title, body, self.head, self.draft)
                    opened = OpenedPullRequest(
                        link=pull.link(base_url), title=pull.title, text=self.text, draft=pull.draft
                    )
                    self._save(step, opened)
        return step.result

    def open_on_forge(
        self,
        journal: Journal,
        forge: Forge,
        asked_at: int,
        check_still_active: Callable[[], None],
        pause: Pause,
        deadline: float,
    ) -> OpenedPullRequest:
        """Opens or updates a pull request on the project's forge."""
        policy = self.project.policy
        with journal.step("open", OpenedPullRequest) as step:
            if not step.is_done:
                proposal = Proposal(
                    branch=self.job.branch,
                    base=self.job.ref,
                    title=format_pull_title(self.title),
                    body=self._combine_bodies(journal),
                    draft=self.draft,
                    head=self.head,
                    labels=policy.labels,
                    reviewers=policy.reviewers,
                )
                known_number = parse_pull_number(self.job.pr_link) if self.job.pr_link else None
                published = create_or_update_pull(
                    forge,
                    proposal,
                    known_number=known_number,
                    requested_at=asked_at,
                    before_change=check_still_active,
                    pause=pause,
                    deadline=deadline,
                )
                pull = published.pull
                notes = list(published.notes)
                opened = OpenedPullRequest(
                    link=pull.url, title=pull.title, text=self.text, draft=pull.draft, notes=notes
                )
                self._save(step, opened)
        return step.result

    def _save(self, step: Step[OpenedPullRequest], opened: OpenedPullRequest) -> None:
        job = {
            "pr_link": opened.link,
            "pull_state": "open",
            "title": opened.title,
            "summary": self.summary,
            "base": self.base,
            "head": self.head,
            "unsure": self.unsure,
        }
        step.save(opened, events=[NewEvent(EventKind.PULL_REQUEST, {"url": opened.link})], job=job)

    def _combine_bodies(self, journal: Journal) -> str:
        """Joins the descriptions of all runs, newest last."""
        earlier_results = [run.results["open"] for run in journal.list_earlier_runs() if "open" in run.results]
        return RUN_SEPARATOR.join(
            [*(OpenedPullRequest.model_validate_json(result).text for result in earlier_results), self.text]
        )
