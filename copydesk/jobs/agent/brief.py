"""What a run does with its model around the turns: the brief before the first one, and one connection for all."""

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.tools.tool import Tool


@dataclass(frozen=True)
class Brief:
    """The data that a model gets before its first turn. It stays the same during the whole run."""

    overview: str
    """A description of the repository, quoted as data."""
    tools: Sequence[Tool]
    deadline: float = math.inf
    """A value of time.monotonic() beyond which the model must not wait for anything."""
    instructions: str | None = None
    """The system prompt in place of the agent's."""


@runtime_checkable
class Briefable(Protocol):
    """A model that needs the tools and an overview of the repository before its first turn.

    The mechanic does not: it reads the workspace itself."""

    def with_brief(self, brief: Brief) -> Model: ...


@contextmanager
def hold_connection(model: Model, runner: asyncio.Runner) -> Iterator[None]:
    """Keeps the HTTP client of a model open while the body runs, so that its requests share one connection.

    The mechanic has none."""
    if not isinstance(model, AbstractAsyncContextManager):
        yield
        return
    runner.run(model.__aenter__())
    try:
        yield
    finally:
        runner.run(model.__aexit__(None, None, None))
