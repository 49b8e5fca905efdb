"""What the agent and its model say to each other, as data that the journal keeps."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from copydesk.jobs.job import Usage

if TYPE_CHECKING:
    from copydesk.jobs.workspace.workspace import Workspace


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(_FrozenModel):
    id: str
    name: str
    arguments: dict[str, Any]


class ToolResult(_FrozenModel):
    call_id: str
    name: str
    ok: bool
    text: str


class Prompt(_FrozenModel):
    """What a person asked for: the job's prompt, or a later message."""

    kind: Literal["prompt"] = "prompt"
    text: str


class ProviderPart(_FrozenModel):
    """One part of a reply with what its provider wrote for itself: ids, signatures, encrypted thoughts."""

    kind: Literal["thinking", "text", "call"]
    text: str = ""
    call_id: str | None = None
    """Which of the reply's calls this is about."""
    id: str | None = None
    signature: str | None = None
    provider: str | None = None
    details: dict[str, Any] | None = None


class ProviderState(_FrozenModel):
    """What a provider wants back word for word in the next turn, and only the model that wrote it can use."""

    model: str
    provider: str | None = None
    system: str | None = None
    """Whose keys the signatures belong to, where the provider's name does not say it."""
    parts: tuple[ProviderPart, ...]


class Reply(_FrozenModel):
    """What the model answered. No calls: it has nothing more to do."""

    kind: Literal["reply"] = "reply"
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage(requests=1)
    keepsake: ProviderState | None = None
    fitted: int | None = None
    """The tokens that the conversation had to be cut down to, where the provider would not take more."""


class ToolResults(_FrozenModel):
    """What the tools answered to one reply."""

    kind: Literal["observed"] = "observed"
    results: tuple[ToolResult, ...]


ConversationEntry = Annotated[Prompt | Reply | ToolResults, Field(discriminator="kind")]
Conversation = list[ConversationEntry]


class ModelFailed(Exception):
    """The model could not answer; the message says why, in the provider's words and without its secrets."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage()
        """What the failed tries cost all the same."""


class Model(Protocol):
    """Anything that answers a conversation. `workspace` is the repository as data: to look at, never to change."""

    @property
    def name(self) -> str: ...

    async def reply(self, conversation: Conversation, workspace: "Workspace") -> Reply:
        """ModelFailed when there is no answer to be had."""
        ...
