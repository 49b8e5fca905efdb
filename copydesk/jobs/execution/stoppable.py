"""The type of context manager with which long-running work can be stopped from outside."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Stoppable = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""Takes a function that ends the work. A stop from outside calls that function while the context lasts."""


def unstoppable(_cancel: Callable[[], object]) -> AbstractContextManager[None]:
    return nullcontext()
