"""How long-running work is stopped from outside: while it runs, a stop calls the function that ends it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Stoppable = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""While the context lasts, a stop from outside calls the function it was given."""


def unstoppable(_cancel: Callable[[], object]) -> AbstractContextManager[None]:
    return nullcontext()
