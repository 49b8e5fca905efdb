"""A provider's model: asked as a stream, asked again where trouble may pass, never beyond the job's own time."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from copydesk.jobs.agent.brief import Brief
from copydesk.jobs.agent.conversation import Conversation, Reply
from copydesk.jobs.agent.models import errors as failures
from copydesk.jobs.agent.models.compaction import compacted, size, tokens
from copydesk.jobs.agent.models.messages import as_definitions, as_messages, as_reply, system_prompt, usage_of
from copydesk.jobs.agent.repository_overview import opening
from copydesk.jobs.agent.tools.toolbox import TOOLS
from copydesk.jobs.job import Usage
from copydesk.jobs.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as Client
    from pydantic_ai.settings import ModelSettings

DEFAULT_WINDOW = 128_000


@dataclass(frozen=True)
class LanguageModel:
    """What may pass is tried again; what does not ends in the provider's words. Half an answer is no answer."""

    name: str
    connect: Callable[[], "Client"] = field(repr=False)
    key: str | None = field(default=None, repr=False)
    window: int = DEFAULT_WINDOW
    """Tokens that a request may carry; a model that is known to take fewer gets fewer."""
    pauses: tuple[float, ...] = (1.0, 4.0, 15.0, 30.0, 60.0)
    """Seconds before each further try, more or less, where the provider does not name its own."""
    idle: float = 300.0
    """Seconds without a byte after which a stream counts as stalled; some models think that long in silence."""
    timeout: float = 1200.0
    """Seconds that one try may take."""
    brief: Brief | None = None

    def briefed(self, brief: Brief) -> "LanguageModel":
        return replace(self, brief=brief)

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        brief = self.brief or Brief(opening(workspace.tree), tuple(TOOLS.values()))
        earlier = [entry.fitted for entry in conversation if isinstance(entry, Reply) and entry.fitted]
        limit = min([self._room(brief), *earlier])
        sent = compacted(conversation, limit)
        try:
            return await self._answer(sent, brief)
        except failures.TooLong:
            harder = size(sent) // 2
            if (shorter := compacted(conversation, harder)) == sent:
                raise
        reply = await self._answer(shorter, brief)
        return reply.model_copy(update={"fitted": harder})

    async def _answer(self, conversation: Conversation, brief: Brief) -> Reply:
        """One whole reply, in as many tries as it takes. What broken tries cost is added to it."""
        messages = as_messages(conversation, brief.opening, self.name)
        spent = Usage()
        pauses = iter(self.pauses)
        while True:
            try:
                reply = as_reply(await self._ask(messages, brief), self.name)
                return reply.model_copy(update={"usage": spent + reply.usage})
            except failures.Broken as broken:
                spent += broken.usage
                trouble = failures.judged(broken, self.name, self.key, spent)
            pause = next(pauses, None)
            if pause is None or not trouble.may_pass:
                raise trouble
            spread = random.uniform(0.75, 1.25)  # noqa: S311 (so that workers do not all come back at once)
            wait = pause * spread if trouble.retry_after is None else trouble.retry_after
            left = brief.deadline - time.monotonic()
            if wait >= left:
                raise trouble.out_of_time(wait, left)
            await asyncio.sleep(wait)

    async def _ask(self, messages: "list[ModelMessage]", brief: Brief) -> "ModelResponse":
        """failures.Broken, with what the try cost nevertheless, unless the answer came to its end."""
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.models import ModelRequestParameters

        stream = None
        parameters = ModelRequestParameters(function_tools=as_definitions(brief.tools))
        settings = self._settings()
        try:
            # A client belongs to one event loop, and jobs may run in several: each request opens its own.
            async with (
                self.connect() as client,
                model_request_stream(
                    client, messages, model_settings=settings, model_request_parameters=parameters
                ) as stream,
            ):
                async for _ in stream:
                    pass
                return failures.whole(stream.get())
        except Exception as error:  # libraries do not all say what they throw at an answer they cannot read
            raise failures.Broken(error, usage_of(stream.get()) if stream is not None else Usage()) from None

    def _settings(self) -> "ModelSettings":
        from pydantic_ai.models.openai import OpenAIResponsesModelSettings

        # Retrying is ours: only here is it known when the job's time is over.
        settings = OpenAIResponsesModelSettings(
            max_retries=0, timeout=self.idle, request_timeout=self.timeout, cache=True
        )
        if self.name.startswith("openai:"):
            settings["openai_store"] = False  # or OpenAI keeps every answer for a month
        return settings

    def _room(self, brief: Brief) -> int:
        """Tokens for the conversation: a quarter is for the answer, and instructions, tools and opening go off."""
        fixed = tokens(system_prompt(), brief.opening, *(str(tool.schema) for tool in brief.tools))
        return max(self._known_window * 3 // 4 - fixed, 1)

    @cached_property
    def _known_window(self) -> int:
        return min(self.window, self.connect().context_window or self.window)
