"""What the agent and its model say to each other, as data that the journal keeps."""

from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from copydesk.jobs.workspace import Workspace


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Usage(_Data):
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        costs = [usage.cost_usd for usage in (self, other) if usage.cost_usd is not None]
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(costs) if costs else None,
        )


class ToolCall(_Data):
    id: str
    name: str
    arguments: dict[str, Any]


class ToolResult(_Data):
    call_id: str
    name: str
    ok: bool
    text: str


class Prompt(_Data):
    """What a person asked for: the job's prompt, or a later message."""

    kind: Literal["prompt"] = "prompt"
    text: str


class Reply(_Data):
    """What the model answered. No calls: it has nothing more to do."""

    kind: Literal["reply"] = "reply"
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage(requests=1)


class Observed(_Data):
    """What the tools answered to one reply."""

    kind: Literal["observed"] = "observed"
    results: tuple[ToolResult, ...]


Entry = Annotated[Prompt | Reply | Observed, Field(discriminator="kind")]
Conversation = list[Entry]


class ModelFailed(Exception):
    """The model could not answer; the message says why, in the provider's words and without its secrets."""


class Model(Protocol):
    """Anything that answers a conversation. `workspace` is the repository as data: to look at, never to change."""

    @property
    def name(self) -> str: ...

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        """ModelFailed when there is no answer to be had."""
        ...
