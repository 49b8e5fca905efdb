"""Opens the pull request of a run, or brings it up to date: as a page of ours, or on the project's forge."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel

from copydesk.core.projects.projects import Project
from copydesk.jobs.execution.journal import Journal, Step
from copydesk.jobs.job import Job
from copydesk.jobs.publish.forges import local
from copydesk.jobs.publish.forges.forge import Forge, Proposal
from copydesk.jobs.publish.forges.markers import number_of
from copydesk.jobs.publish.forges.pull_requests import publish_pull
from copydesk.jobs.publish.messages import heading
from copydesk.jobs.publish.retry import Pause
from copydesk.jobs.storage.records import EventKind, NewEvent

BETWEEN_RUNS = "\n---\n\n"


class Opened(BaseModel):
    link: str
    title: str
    text: str
    """What this run had to say; the pull request has the words of all runs."""
    draft: bool = False
    """As it really is: one that was ready stays so, and not every repository has drafts."""
    notes: list[str] = []


@dataclass(frozen=True)
class Opening:
    """What this run proposes. `base` and `head` are the commits that the job's diff lies between."""

    job: Job
    project: Project
    title: str
    summary: str
    text: str
    draft: bool
    base: str
    head: str

    def here(self, journal: Journal, base_url: str) -> Opened:
        """Opens or updates a pull request of our own, in the transaction that stores the step."""
        title, body = heading(self.title), self._whole(journal)
        with journal.step("open", Opened) as step:
            if not step.is_done:
                with step.transaction() as tx:
                    pull = local.find_or_open(journal.database, tx, self.job, title, body, self.head, self.draft)
                    opened = Opened(link=pull.link(base_url), title=pull.title, text=self.text, draft=pull.draft)
                    self._save(step, opened)
        return step.result

    def there(
        self, journal: Journal, forge: Forge, asked_at: int, guard: Callable[[], None], pause: Pause, deadline: float
    ) -> Opened:
        """Opens or updates a pull request on the project's forge."""
        policy = self.project.policy
        with journal.step("open", Opened) as step:
            if not step.is_done:
                proposal = Proposal(
                    branch=self.job.branch,
                    base=self.job.ref,
                    title=heading(self.title),
                    body=self._whole(journal),
                    draft=self.draft,
                    head=self.head,
                    labels=policy.labels,
                    reviewers=policy.reviewers,
                )
                known = number_of(self.job.pr_link) if self.job.pr_link else None
                published = publish_pull(
                    forge, proposal, known=known, asked_at=asked_at, guard=guard, pause=pause, deadline=deadline
                )
                pull, notes = published.pull, list(published.notes)
                opened = Opened(link=pull.url, title=pull.title, text=self.text, draft=pull.draft, notes=notes)
                self._save(step, opened)
        return step.result

    def _save(self, step: Step[Opened], opened: Opened) -> None:
        job = {
            "pr_link": opened.link,
            "title": opened.title,
            "summary": self.summary,
            "base": self.base,
            "head": self.head,
        }
        step.save(opened, events=[NewEvent(EventKind.PULL_REQUEST, {"url": opened.link})], job=job)

    def _whole(self, journal: Journal) -> str:
        """The words of all runs, the newest last."""
        before = [run.results["open"] for run in journal.earlier() if "open" in run.results]
        return BETWEEN_RUNS.join([*(Opened.model_validate_json(result).text for result in before), self.text])
