"""What a model is given once, before its first turn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.tools.tool import Tool


@dataclass(frozen=True)
class Brief:
    """What a model is given before the first turn; it stays the same over the whole run."""

    overview: str
    """The repository as data."""
    tools: Sequence[Tool]
    deadline: float = math.inf
    """By time.monotonic(): nothing is waited for beyond it."""


@runtime_checkable
class Briefable(Protocol):
    """A model that must be given the tools and an overview of the repository before the first turn.

    The mechanic is none: it reads the workspace itself."""

    def with_brief(self, brief: Brief) -> Model: ...
