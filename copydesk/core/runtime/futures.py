"""A helper that resolves a batch of asyncio futures."""

import asyncio
from collections.abc import Iterable
from typing import Any


def resolve_futures(futures: Iterable[asyncio.Future[Any]], outcomes: Iterable[Any]) -> None:
    """Sets the result of each future, or its exception if the outcome is one. Skips futures that are done."""
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():  # its request was cancelled, or its client disconnected
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
