"""A model behind a provider's API: streams responses, and retries transient errors within the job's deadline."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from copydesk.core.runtime.retry import Backoff, DeadlineTooNear, retry_async
from copydesk.jobs.agent.brief import Brief
from copydesk.jobs.agent.conversation import Conversation, Reply
from copydesk.jobs.agent.models import errors
from copydesk.jobs.agent.models.compaction import compact, conversation_tokens, estimate_tokens
from copydesk.jobs.agent.models.messages import (
    load_system_prompt,
    reply_from_response,
    to_model_messages,
    to_tool_definitions,
    usage_from_response,
)
from copydesk.jobs.agent.overview.repository_overview import render_overview
from copydesk.jobs.agent.tools.toolbox import TOOLS
from copydesk.jobs.job import Usage
from copydesk.jobs.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as Client
    from pydantic_ai.settings import ModelSettings

DEFAULT_WINDOW_TOKENS = 128_000
JITTER = 0.25


@dataclass(frozen=True)
class LanguageModel:
    """A model behind a provider's API.

    Retries transient errors; raises ModelFailed with the provider's message for permanent ones. A stream that breaks
    off counts as an error. While the model is entered, its requests share one HTTP client, which belongs to the event
    loop that entered it; otherwise each reply opens its own.
    """

    name: str
    connect: Callable[[], "Client"] = field(repr=False)
    api_key: str | None = field(default=None, repr=False)
    window_tokens: int = DEFAULT_WINDOW_TOKENS
    """Maximum tokens of a request. A model whose context window is known to be smaller gets fewer."""
    backoff_seconds: tuple[float, ...] = (1.0, 4.0, 15.0, 30.0, 60.0)
    """Seconds before each retry, with jitter added, unless the provider names a delay."""
    idle_timeout_seconds: float = 300.0
    """Seconds without data after which a stream counts as stalled. Some models think that long before they send any."""
    attempt_timeout_seconds: float = 1200.0
    """Seconds that one attempt may take."""
    brief: Brief | None = None

    def with_brief(self, brief: Brief) -> "LanguageModel":
        return replace(self, brief=brief)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        async with self:
            return await self._reply(conversation, workspace)

    async def _reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        brief = self.brief or Brief(render_overview(workspace.tree), tuple(TOOLS.values()))
        earlier_limits = [entry.fitted for entry in conversation if isinstance(entry, Reply) and entry.fitted]
        limit = min([self._token_budget(brief), *earlier_limits])
        sent_conversation = compact(conversation, limit)
        try:
            return await self._request_with_retries(sent_conversation, brief)
        except errors.ConversationTooLong:
            smaller_limit = conversation_tokens(sent_conversation) // 2
            if (shorter := compact(conversation, smaller_limit)) == sent_conversation:
                raise
        reply = await self._request_with_retries(shorter, brief)
        return reply.model_copy(update={"fitted": smaller_limit})

    async def _request_with_retries(self, conversation: Conversation, brief: Brief) -> Reply:
        """Returns one complete reply, with retries. Its usage includes that of the failed attempts."""
        messages = to_model_messages(conversation, brief.overview, self.name, brief.instructions)
        spent = Usage()

        async def make_attempt() -> Reply:
            nonlocal spent
            try:
                response = await self._request_once(messages, brief)
            except errors.FailedAttempt as attempt:
                spent += attempt.usage
                raise errors.classify_failure(attempt, self.name, self.api_key, spent) from None
            reply = reply_from_response(response, self.name)
            return reply.model_copy(update={"usage": spent + reply.usage})

        backoff = Backoff[errors.ProviderError](
            self.backoff_seconds,
            deadline=brief.deadline,
            jitter=JITTER,
            is_transient=lambda error: error.is_transient,
            adjust_delay=lambda error, delay: delay if error.retry_after is None else error.retry_after,
        )
        try:
            return await retry_async(make_attempt, errors.ProviderError, backoff)
        except DeadlineTooNear as exceeded:
            raise errors.out_of_time_error(exceeded, spent) from None

    async def _request_once(self, messages: "list[ModelMessage]", brief: Brief) -> "ModelResponse":
        """Makes one attempt. Raises FailedAttempt, with the usage of the attempt, unless the response is complete."""
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.models import ModelRequestParameters

        stream = None
        parameters = ModelRequestParameters(function_tools=to_tool_definitions(brief.tools))
        settings = self._build_settings()
        try:
            async with model_request_stream(
                self._client, messages, model_settings=settings, model_request_parameters=parameters
            ) as stream:
                async for _ in stream:
                    pass
                return errors.require_complete(stream.get())
        except Exception as error:  # SDKs raise undocumented errors for responses they cannot parse
            raise errors.FailedAttempt(
                error, usage_from_response(stream.get()) if stream is not None else Usage()
            ) from None

    def _build_settings(self) -> "ModelSettings":
        from pydantic_ai.models.openai import OpenAIResponsesModelSettings

        # Retries are made in this class and not in the SDK, which does not know the job's deadline.
        settings = OpenAIResponsesModelSettings(
            max_retries=0, timeout=self.idle_timeout_seconds, request_timeout=self.attempt_timeout_seconds, cache=True
        )
        if self.name.startswith("openai:"):
            settings["openai_store"] = False  # otherwise OpenAI stores every response for a month
        return settings

    def _token_budget(self, brief: Brief) -> int:
        """Returns the tokens that the conversation may have.

        Subtracts a quarter of the window for the answer, and the system prompt, the tools and the overview.
        """
        fixed_tokens = estimate_tokens(
            brief.instructions or load_system_prompt(), brief.overview, *(str(tool.schema) for tool in brief.tools)
        )
        return max(self._effective_window * 3 // 4 - fixed_tokens, 1)

    @cached_property
    def _client(self) -> "Client":
        return self.connect()

    @cached_property
    def _effective_window(self) -> int:
        return min(self.window_tokens, self._client.context_window or self.window_tokens)
