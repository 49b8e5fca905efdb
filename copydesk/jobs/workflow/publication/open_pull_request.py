"""Opens or updates the pull request of a run, as a page of this service or on the project's forge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from copydesk.core.projects.projects import Project
from copydesk.jobs.execution.journal import Journal, Step
from copydesk.jobs.job import Job, JobSecondLook
from copydesk.jobs.publish.forge_retry import Pause
from copydesk.jobs.publish.forges import local
from copydesk.jobs.publish.forges.forge import Forge, Proposal
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.pull_requests import create_or_update_pull
from copydesk.jobs.publish.git.commit import CommitResult
from copydesk.jobs.publish.messages import format_pull_title
from copydesk.jobs.publish.pull_body import Round
from copydesk.jobs.risk import Risk, point_to_risks
from copydesk.jobs.storage.job_events import find_pull_event
from copydesk.jobs.storage.records import EventKind, NewEvent
from copydesk.jobs.workflow.publication.direct_merge import MergeResult
from copydesk.jobs.workspace.git_tree import Tree, write_changed_tree
from copydesk.jobs.workspace.patches import list_changed_files
from copydesk.jobs.workspace.workspace import Workspace


class OpenedPullRequest(BaseModel):
    link: str
    title: str
    text: str
    """The description of the pull request that this run wrote."""
    round: Round
    """What the descriptions of later runs tell of this run."""
    draft: bool
    """Whether it is a draft on the forge: a ready pull request stays ready, and some repositories have no drafts."""
    notes: list[str]


@dataclass(frozen=True)
class PullRequestOpener:
    """Opens or updates the pull request of a run. The job's diff is between the commits `base` and `head`."""

    job: Job
    project: Project
    title: str
    summary: str
    text: str
    round: Round
    draft: bool
    base: str
    head: str
    second_look: JobSecondLook | None = None

    def open_locally(self, journal: Journal, base_url: str) -> OpenedPullRequest:
        """Opens or updates a local pull request, in the transaction that stores the step."""
        title = format_pull_title(self.title, self.round.closed_issues)
        with journal.step("open", OpenedPullRequest) as step:
            if not step.is_done:
                with step.transaction() as tx:
                    pull = local.find_or_open_pull(
                        journal.database, tx, self.job, title, self.text, self.head, self.draft
                    )
                    self._save(step, self._describe(pull.link(base_url), pull.title, pull.draft))
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
                    title=format_pull_title(self.title, self.round.closed_issues),
                    body=self.text,
                    draft=self.draft,
                    head=self.head,
                    labels=policy.labels,
                    reviewers=list(dict.fromkeys([*policy.reviewers, *self.job.reviewers])),
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
                self._save(step, self._describe(pull.url, pull.title, pull.draft, published.notes))
        return step.result

    def _save(self, step: Step[OpenedPullRequest], opened: OpenedPullRequest) -> None:
        job = {
            "pr_link": opened.link,
            "pull_state": "open",
            "title": opened.title,
            "summary": self.summary,
            "base": self.base,
            "head": self.head,
            "second_look": self.second_look.model_dump() if self.second_look else None,
        }
        step.save(
            opened,
            events=[NewEvent(EventKind.PULL_REQUEST, {"url": opened.link})],
            job=job,
            webhook_event=find_pull_event(self.job.pull_state, "open"),
        )

    def _describe(self, link: str, title: str, draft: bool, notes: Sequence[str] = ()) -> OpenedPullRequest:
        return OpenedPullRequest(
            link=link,
            title=title,
            text=self.text,
            round=self.round,
            draft=draft,
            notes=list(notes),
        )


def build_whole_change(workspace: Workspace, origin: Tree) -> Workspace:
    """Returns a workspace with all changes of the job since `origin`, which its pull request shows."""
    tree = workspace.tree
    if tree.root == origin.root:
        return workspace
    whole_change = Workspace(origin, root=workspace.root)
    current_root = write_changed_tree(tree, workspace.changes())
    whole_change.restore(list_changed_files(tree.repository, origin.root, current_root, origin.limits.file_bytes))
    return whole_change


def describe_outcome(
    opened: OpenedPullRequest,
    committed: CommitResult,
    risks: Sequence[Risk],
    merged: MergeResult | None,
) -> str | None:
    """Returns the job's message after its pull request was opened; None if there is nothing to say.

    `merged` says why the change was not merged without a review; None if that was not asked for.
    """
    notes = [f"Not merged without a review. {merged.obstacle}" if merged else None, committed.note]
    if grave := [risk for risk in risks if risk.needs_draft]:
        notes += [point_to_risks(grave), "The pull request is a draft." if opened.draft else None]
    return " ".join(filter(None, [*notes, *opened.notes])) or None


def list_earlier_openings(journal: Journal) -> list[OpenedPullRequest]:
    """Returns how the earlier runs of the job opened or updated the pull request, oldest first."""
    results = (run.results for run in journal.list_earlier_runs())
    return [OpenedPullRequest.model_validate_json(each["open"]) for each in results if "open" in each]


def list_rounds(openings: Sequence[OpenedPullRequest], latest: Round) -> list[Round]:
    """Returns the rounds that the description tells of, newest last."""
    return [*(opened.round for opened in openings), latest]
