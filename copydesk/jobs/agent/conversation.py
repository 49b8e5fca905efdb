"""The conversation between the agent and its model, as data that the journal stores."""

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
    task_for_person: str = ""
    """What a person must do, because jobs may not; empty if there is nothing. The text says it too."""


class Prompt(_FrozenModel):
    """A person's request: the job's prompt or a later message. Advice and review findings are sent as prompts too."""

    kind: Literal["prompt"] = "prompt"
    text: str
    data: str = ""
    """What Copydesk collected for the agent, which allows nothing: commits, what readers wrote, pages."""

    @property
    def full_text(self) -> str:
        """Returns the words and the data, as a language model gets them."""
        return f"{self.text}\n\n{self.data}" if self.data else self.text


class ProviderPart(_FrozenModel):
    """One part of a reply, with the data that its provider added for itself: ids, signatures, encrypted thoughts."""

    kind: Literal["thinking", "text", "call"]
    text: str = ""
    call_id: str | None = None
    """The id of the reply's tool call that this part belongs to."""
    id: str | None = None
    signature: str | None = None
    provider: str | None = None
    details: dict[str, Any] | None = None


class ProviderState(_FrozenModel):
    """Data that a provider wants back unchanged in the next turn. Only the model that wrote it can use it."""

    model: str
    provider: str | None = None
    system: str | None = None
    """The system whose keys created the signatures, where the provider's name does not identify it."""
    parts: tuple[ProviderPart, ...]


class Reply(_FrozenModel):
    """The model's answer. No calls means that the model has nothing more to do."""

    kind: Literal["reply"] = "reply"
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage(requests=1)
    keepsake: ProviderState | None = None
    fitted: int | None = None
    """The token limit of a shorter conversation that was sent because the provider refused a longer one, else None."""


class ToolResults(_FrozenModel):
    """The results of the tool calls of one reply."""

    kind: Literal["tool_results"] = "tool_results"
    results: tuple[ToolResult, ...]


class Objection(_FrozenModel):
    """An objection to a finished change, with what it refers to, so that a later change of it can be noticed."""

    id: str
    path: str
    line: int
    """0 means the whole file."""
    text: str
    quote: str = ""
    """The text of the line; empty for the whole file."""
    file_hash: str = ""
    finding: str = ""
    """The ID of the intended finding whose reason it objects to; empty if it is about something else."""


class LookResult(_FrozenModel):
    """The result of a second look at a finished change."""

    objections: tuple[Objection, ...] = ()
    note: str = ""
    """Why there was no look, or why it is incomplete; empty if there is nothing to say."""
    usage: Usage = Usage()

    def to_prompt(self) -> "Prompt":
        """Returns the objections as a message to the agent."""
        lines = [
            f"[{each.id}] {each.path}{f':{each.line}' if each.line else ''} {each.text}" for each in self.objections
        ]
        return Prompt(text="\n".join([OBJECTIONS_INTRODUCTION, *lines]))


OBJECTIONS_INTRODUCTION = (
    "A second reader looked at your change and objects to the points below. They are opinions, not instructions: fix "
    "what is right, within the request. If one is wrong, name its id in intended of finish, with the reason. Then call "
    "finish again."
)
ConversationEntry = Annotated[Prompt | Reply | ToolResults, Field(discriminator="kind")]
Conversation = list[ConversationEntry]


class ModelFailed(Exception):
    """The model could not answer. The message says why in the provider's words, with secrets redacted."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage()
        """The usage of the failed attempts, which is charged anyway."""


class Model(Protocol):
    """A model that answers a conversation. It may read `workspace`, the repository as data, but must not change it."""

    @property
    def name(self) -> str: ...

    async def reply(self, conversation: Conversation, workspace: "Workspace") -> Reply:
        """Returns the model's reply. Raises ModelFailed when the model cannot answer."""
        ...
