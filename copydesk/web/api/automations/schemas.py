"""JSON schemas of the requests and responses of automations."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from copydesk.automations.automation import Automation, AutomationRun, NoticeCode, Outcome
from copydesk.automations.definition import (
    MAX_AUTOMATION_NAME_CHARS,
    MAX_OWN_PROMPT_CHARS,
    DefinitionModel,
    PathPatterns,
    RepositoryNames,
    Reviewer,
    Trigger,
)
from copydesk.automations.files.sync import FilesState
from copydesk.automations.kinds import Kind
from copydesk.automations.service import AutomationWithRun
from copydesk.core.clock import format_iso, format_iso_or_none
from copydesk.web.api.schemas import ApiModel

NULLABLE_FIELDS = ("context", "model", "monthlyCostUsd")


class AutomationRequest(DefinitionModel):
    """The fields of an automation. A new one needs `kind`, or else `name`, `prompt` and `trigger`.

    Null means the default for `context`, `model` and `monthlyCostUsd`; for other fields it means that they are absent.
    """

    model_config = ConfigDict(populate_by_name=False)

    name: (
        Annotated[str, Field(min_length=1, max_length=MAX_AUTOMATION_NAME_CHARS, examples=["Follow the code"])] | None
    ) = None
    """A name for people. It is in the list of jobs. The default is the name of the kind."""
    kind: Annotated[Kind, Field(strict=False)] | None = Field(None, examples=["broken_links"])
    """`custom`, or a predefined kind, which brings its own prompt, trigger and paths."""
    prompt: Annotated[str, Field(max_length=MAX_OWN_PROMPT_CHARS)] | None = None
    """What the agent should do. It is added to the prompt of a predefined kind."""
    trigger: Trigger | None = None
    """When it runs."""
    mode: Literal["pull_request", "merge"] | None = None
    """`merge` pushes to the branch itself if the checks find nothing, and the change is within `paths` and
    `maxLines`."""
    grouping: Literal["append", "new"] | None = None
    """`append` continues the open pull request of earlier runs; `new` opens one for each run."""
    context: RepositoryNames | None = None
    """Names of context repositories that the agent may read. Null means all of them."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The model to use. Null means the project's model."""
    draft: bool | None = None
    """Open the pull request as a draft."""
    reviewers: list[Reviewer] | None = None
    """Reviewers to request, by their names on the forge. `authors` stands for the authors of the triggering change."""
    daily_limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Runs per day (UTC), 1 to 1,000. Further ones wait. The default is 20."""
    monthly_cost_usd: Annotated[float, Field(strict=False, gt=0, le=1_000_000)] | None = None
    """Cost of the runs of one month (UTC) after which further ones wait. Null means no limit."""
    paths: PathPatterns | None = None
    """In mode `merge`: the files that a run may change, as patterns such as `docs/**`."""
    max_lines: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """In mode `merge`: the lines that a run may add and delete together, 1 to 10,000. The default is 100."""
    enabled: bool | None = None
    """Whether the trigger starts runs. The default is true."""

    def to_values(self) -> dict[str, Any]:
        """Returns the fields that the request has."""
        values = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {name: value for name, value in values.items() if value is not None or name in NULLABLE_FIELDS}


class AutomationRunResponse(ApiModel):
    id: str
    job_id: str
    fired_at: str
    trigger: dict[str, Any]
    """What started the run. `text` is a sentence for people."""
    outcome: Outcome
    message: str | None
    """The outcome as a sentence, if there is more to say."""
    appended: bool
    """Whether the run continues the pull request of an earlier one."""

    @classmethod
    def from_run(cls, run: AutomationRun) -> "AutomationRunResponse":
        return cls(
            id=run.id,
            job_id=run.job_id,
            fired_at=format_iso(run.fired_at),
            trigger=run.trigger,
            outcome=run.outcome,
            message=run.message,
            appended=run.is_appended,
        )


class NoticeResponse(ApiModel):
    code: NoticeCode
    text: str
    since: str


class FileSourceResponse(ApiModel):
    file: str
    """The path in the project's repository."""
    commit: str
    """The commit at which Copydesk first read the current definition."""
    problem: str | None
    """Why the automation is paused: the file is not valid, or the project does not read files."""


class AutomationResponse(ApiModel):
    id: str
    name: str
    enabled: bool
    kind: Kind
    prompt: str
    trigger: Trigger
    mode: Literal["pull_request", "merge"]
    grouping: Literal["append", "new"]
    context: list[str] | None
    model: str | None
    draft: bool
    reviewers: list[str]
    daily_limit: int
    monthly_cost_usd: float | None
    paths: list[str]
    max_lines: int
    created_at: str
    updated_at: str
    last_run: AutomationRunResponse | None
    next_run: str | None
    """When the schedule starts the next run. Null without a schedule, and while it is not enabled."""
    notice: NoticeResponse | None
    """Why the next run waits; null if it does not."""
    source: FileSourceResponse | None
    """The file that defines the automation, which can then only be changed there. Null for others."""

    @classmethod
    def from_automation(cls, automation: Automation, last_run: AutomationRun | None = None) -> "AutomationResponse":
        notice = automation.notice
        definition = automation.definition
        return cls(
            id=automation.id,
            **{name: getattr(definition, name) for name in type(definition).model_fields},
            created_at=format_iso(automation.created_at),
            updated_at=format_iso(automation.updated_at),
            last_run=AutomationRunResponse.from_run(last_run) if last_run else None,
            next_run=format_iso_or_none(automation.next_slot_at) if definition.enabled else None,
            notice=NoticeResponse(code=notice.code, text=notice.text, since=format_iso(notice.at)) if notice else None,
            source=FileSourceResponse(**vars(automation.source)) if automation.source else None,
        )


class AutomationListResponse(ApiModel):
    automations: list[AutomationResponse]

    @classmethod
    def from_list(cls, listed: list[AutomationWithRun]) -> "AutomationListResponse":
        return cls(automations=[AutomationResponse.from_automation(*each) for each in listed])


class FileProblemResponse(ApiModel):
    line: int | None
    """The line of the file, counted from 1; null if the problem is not in one line."""
    message: str


class AutomationFileResponse(ApiModel):
    file: str
    automation_id: str | None
    """The automation of the file; null if the file was never valid."""
    problems: list[FileProblemResponse]


class AutomationFilesResponse(ApiModel):
    enabled: bool
    """Whether the project reads automation files (its setting `automation_files`)."""
    branch: str | None
    commit: str | None
    """The commit whose files were read last."""
    read_at: str | None
    problem: str | None
    """Why the repository could not be read since then."""
    files: list[AutomationFileResponse]

    @classmethod
    def from_state(cls, enabled: bool, state: FilesState) -> "AutomationFilesResponse":
        return cls(
            enabled=enabled,
            branch=state.branch,
            commit=state.commit,
            read_at=format_iso_or_none(state.read_at),
            problem=state.problem,
            files=[
                AutomationFileResponse(
                    file=file.path,
                    automation_id=file.automation_id,
                    problems=[FileProblemResponse(**problem._asdict()) for problem in file.problems],
                )
                for file in state.files
            ],
        )


class AutomationRunListResponse(ApiModel):
    runs: list[AutomationRunResponse]
    next_cursor: str | None


class TriggeredResponse(ApiModel):
    schema_id: str
    """The automation's ID."""
    instance_id: str
    """The run's ID."""
    job_id: str
