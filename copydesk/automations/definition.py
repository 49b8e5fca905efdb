"""The fields of an automation that a person defines. This module does no input or output."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel

from copydesk.automations.kinds import KINDS, Kind, KindDefaults
from copydesk.automations.schedule import MAX_CRON_CHARS, validate_schedule
from copydesk.core.text.path_patterns import MAX_PATTERNS, validate_pattern
from copydesk.jobs.job import MAX_PROMPT_CHARS

MAX_AUTOMATION_NAME_CHARS = 100
MAX_OWN_PROMPT_CHARS = MAX_PROMPT_CHARS - 8_000
"""Leaves room for the predefined prompt and the trigger's description in a job's prompt."""
MAX_REPOSITORIES = 10
MAX_REVIEWERS = 15
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
TAG_PATTERN_CHARS = 100
FILES_FOLDER = ".copydesk/automations"
"""The folder of the repository whose files define automations."""
STORED = "stored"
"""The validation context of definitions from the database. Their schedules were checked when they were stored."""

PathPatterns = Annotated[list[str], Field(max_length=MAX_PATTERNS)]
RepositoryName = Annotated[str, Field(pattern=NAME_PATTERN)]
RepositoryNames = Annotated[list[RepositoryName], Field(max_length=MAX_REPOSITORIES)]
Reviewer = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,99}$")]


class DefinitionModel(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )


class WatchedPaths(DefinitionModel):
    paths: PathPatterns = []
    """Only changes of these paths count, such as `src/**` or `docs/*.md`. The default is every path."""

    @field_validator("paths")
    @classmethod
    def _validate_paths(cls, paths: list[str]) -> list[str]:
        return [validate_pattern(path) for path in paths]


class ScheduleTrigger(DefinitionModel):
    type: Literal["schedule"]
    cron: Annotated[str, Field(min_length=1, max_length=MAX_CRON_CHARS)]
    """Minute, hour, day of the month, month and day of the week, such as `0 6 * * 1`."""
    timezone: Annotated[str, Field(min_length=1, max_length=60)] = "UTC"
    """The name of a time zone, such as `Europe/Berlin`."""

    @model_validator(mode="after")
    def _validate_schedule(self, info: ValidationInfo) -> Self:
        if info.context != STORED:
            validate_schedule(self.cron, self.timezone)
        return self


class CodeChangeTrigger(WatchedPaths):
    type: Literal["code_change"]
    repositories: RepositoryNames = []
    """Names of context repositories. The default is all of them."""


class ContentUpdateTrigger(WatchedPaths):
    type: Literal["content_update"]


class ReleaseTrigger(DefinitionModel):
    type: Literal["release"]
    repositories: RepositoryNames = []
    """Names of context repositories. The default is all of them."""
    tags: Annotated[str, Field(min_length=1, max_length=TAG_PATTERN_CHARS)] | None = None
    """A shell pattern that a tag must match, such as `v*`. The default is every tag."""


class ApiTrigger(DefinitionModel):
    type: Literal["api"]


Trigger = Annotated[
    ScheduleTrigger | CodeChangeTrigger | ContentUpdateTrigger | ReleaseTrigger | ApiTrigger,
    Field(discriminator="type"),
]


class AutomationDefinition(DefinitionModel):
    name: Annotated[str, Field(min_length=1, max_length=MAX_AUTOMATION_NAME_CHARS)]
    """A name for people. It is in the pull request and in the list of jobs."""
    kind: Annotated[Kind, Field(strict=False)] = Kind.CUSTOM
    """`custom`, or a predefined kind, which brings its own prompt, trigger and paths."""
    prompt: Annotated[str, Field(max_length=MAX_OWN_PROMPT_CHARS)] = ""
    """What the agent should do. It is added to the prompt of a predefined kind."""
    trigger: Trigger
    """When it runs. A predefined kind has a default."""
    mode: Literal["pull_request", "merge"] = "pull_request"
    """`merge` pushes to the branch itself if the checks find nothing, and the change is within `paths` and
    `maxLines`."""
    grouping: Literal["append", "new"] = "append"
    """`append` continues the open pull request of earlier runs; `new` opens one for each run."""
    context: RepositoryNames | None = None
    """Names of context repositories that the agent may read. The default is all of them."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The model to use. The default is the project's model."""
    draft: bool = False
    """Open the pull request as a draft."""
    reviewers: Annotated[list[Reviewer], Field(max_length=MAX_REVIEWERS)] = []
    """Reviewers to request, by their names on the forge. `authors` stands for the authors of the triggering change."""
    daily_limit: Annotated[int, Field(ge=1, le=1000)] = 20
    """Runs per day (UTC). Further ones wait."""
    monthly_cost_usd: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """Cost of the runs of one month (UTC), if the model's price is known, after which further ones wait."""
    paths: PathPatterns = []
    """In mode `merge`: the files that a run may change. The default is all, or those of the kind."""
    max_lines: Annotated[int, Field(ge=1, le=10_000)] = 100
    """In mode `merge`: the lines that a run may add and delete together."""
    enabled: bool = True

    @model_validator(mode="before")
    @classmethod
    def _add_defaults_of_kind(cls, values: Any) -> Any:
        kind = values.get("kind", Kind.CUSTOM) if isinstance(values, dict) else None
        if not isinstance(kind, str) or kind not in set(Kind):
            return values
        defaults = KINDS[Kind(kind)]
        added: dict[str, Any] = {"grouping": defaults.grouping, "paths": list(defaults.paths)}
        if defaults.trigger is not None:
            added["trigger"] = defaults.trigger
        if defaults.prompt:
            added["name"] = defaults.title
        return {**added, **values}

    @field_validator("name")
    @classmethod
    def _validate_name(cls, name: str) -> str:
        if not name.strip() or not name.isprintable():
            raise ValueError("must be one line of printable characters")
        return name.strip()

    @field_validator("prompt")
    @classmethod
    def _reject_nul(cls, prompt: str) -> str:
        if "\x00" in prompt:
            raise ValueError("must not contain a NUL character")
        return prompt.strip()

    @field_validator("paths")
    @classmethod
    def _validate_paths(cls, paths: list[str]) -> list[str]:
        return [validate_pattern(path) for path in paths]

    @model_validator(mode="after")
    def _require_prompt(self) -> Self:
        if self.kind is Kind.CUSTOM and not self.prompt:
            raise ValueError("prompt: a custom automation needs a prompt")
        return self

    @property
    def watched_names(self) -> list[str]:
        """The context repositories that the trigger names; none for all of them, and for other triggers."""
        return self.trigger.repositories if isinstance(self.trigger, CodeChangeTrigger | ReleaseTrigger) else []

    @property
    def defaults(self) -> KindDefaults:
        return KINDS[self.kind]

    def to_stored(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @classmethod
    def from_stored(cls, values: Any) -> Self:
        return cls.model_validate(values, context=STORED)
