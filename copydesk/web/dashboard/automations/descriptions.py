"""Describes automations in words: their kinds and triggers, and the rows of the pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.automations.automation import OUTCOME_TEXTS, Automation, AutomationRun, Outcome
from copydesk.automations.definition import (
    CodeChangeTrigger,
    ContentUpdateTrigger,
    ReleaseTrigger,
    ScheduleTrigger,
    Trigger,
)
from copydesk.automations.kinds import KINDS, Kind
from copydesk.core.projects.projects import Project
from copydesk.web.dashboard.automations.schedule_words import describe_schedule, join_words
from copydesk.web.dashboard.jobs.job_rows import safe_pull_url

KIND_SUMMARIES = {
    Kind.UPDATE_FROM_CODE: "Updates the pages that a change of the code makes wrong.",
    Kind.CHANGELOG: "Adds an entry to the changelog for each release.",
    Kind.BROKEN_LINKS: "Fixes broken links and anchors. Works without a language model.",
    Kind.FEEDBACK: "Improves the pages that readers found not helpful.",
    Kind.MISSING_PAGES: "Adds redirects for addresses that readers open and that have no page.",
    Kind.UNANSWERED_SEARCHES: "Uses the readers’ words on pages that they searched for and did not open.",
    Kind.STALE_PAGES: "Compares popular pages that were not edited for long with their sources.",
    Kind.TYPOS: "Fixes spelling and grammar in the pages that changed.",
    Kind.STYLE_GUIDE: "Makes the pages that changed follow your style guide.",
    Kind.TRANSLATE: "Brings translations up to date when their pages change.",
    Kind.CUSTOM: "Follows your own instructions, when you choose.",
}
OUTCOME_CLASSES = {
    Outcome.RUNNING: "active",
    Outcome.REVIEW_NEEDED: "warn",
    Outcome.MERGED: "merged",
    Outcome.CLOSED: "quiet",
    Outcome.FAILED: "failed",
    Outcome.NOTHING_TO_DO: "quiet",
}
MAX_NAMED_PATHS = 3


class KindChoice:
    """A kind as the pages offer it."""

    def __init__(self, kind: Kind) -> None:
        self.value = kind.value
        self.title = KINDS[kind].title
        self.summary = KIND_SUMMARIES[kind]


KIND_CHOICES = tuple(KindChoice(kind) for kind in KIND_SUMMARIES)


@dataclass(frozen=True)
class RunRow:
    run: AutomationRun
    project: Project

    @property
    def outcome(self) -> str:
        return OUTCOME_TEXTS[self.run.outcome]

    @property
    def css_class(self) -> str:
        return OUTCOME_CLASSES[self.run.outcome]

    @property
    def job_path(self) -> str:
        return f"/projects/{self.project.id}/jobs/{self.run.job_id}"

    @property
    def pull(self) -> str | None:
        return safe_pull_url(self.project, self.run.pr_link)

    @property
    def trigger(self) -> str:
        return str(self.run.trigger.get("text", ""))


@dataclass(frozen=True)
class AutomationRow:
    automation: Automation
    last_run: RunRow | None

    @property
    def path(self) -> str:
        return f"/projects/{self.automation.project_id}/automations/{self.automation.id}"

    @property
    def kind(self) -> str:
        return self.automation.definition.defaults.title

    @property
    def trigger(self) -> str:
        return describe_trigger(self.automation.definition.trigger)

    @property
    def next_run_at(self) -> int | None:
        return self.automation.next_slot_at if self.automation.definition.enabled else None


def build_automation_row(project: Project, automation: Automation, last_run: AutomationRun | None) -> AutomationRow:
    return AutomationRow(automation, RunRow(last_run, project) if last_run else None)


def describe_trigger(trigger: Trigger) -> str:
    """Returns when the automation runs, as a phrase that begins with a capital letter."""
    if isinstance(trigger, ScheduleTrigger):
        return describe_schedule(trigger.cron, trigger.timezone)
    if isinstance(trigger, CodeChangeTrigger):
        place = join_words(trigger.repositories, "or") or "any context repository"
        return f"When code changes in {place}{_describe_paths(trigger.paths)}"
    if isinstance(trigger, ContentUpdateTrigger):
        return f"When the documentation changes{_describe_paths(trigger.paths)}"
    if isinstance(trigger, ReleaseTrigger):
        tags = f", with a tag like {trigger.tags}" if trigger.tags else ""
        return f"When {join_words(trigger.repositories, 'or') or 'a context repository'} has a new release{tags}"
    return "Only when started here or through the API"


def _describe_paths(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    more = [f"{len(paths) - MAX_NAMED_PATHS} more"] if len(paths) > MAX_NAMED_PATHS else []
    return f", in {join_words([*paths[:MAX_NAMED_PATHS], *more], 'or' if not more else 'and')}"
