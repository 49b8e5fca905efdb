"""The brief that a model gets once, before its first turn."""

import math
from collections.abc import Sequence
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
