"""Telling those who wait together what became of each."""

import asyncio
from collections.abc import Iterable
from typing import Any


def resolve_futures(futures: Iterable[asyncio.Future[Any]], outcomes: Iterable[Any]) -> None:
    """An outcome that is an exception is raised where it is waited for."""
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():  # its request was cancelled, or its client went away
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
