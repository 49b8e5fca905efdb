"""Simulates a process that dies at a chosen statement, right before it is sent or right after it is done."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from copydesk.analytics.stores.clickhouse.connection.node import Node


class Killed(BaseException):
    """A BaseException, so that no handler of ours catches it: a killed process runs no handlers."""


@contextmanager
def killed_at(step: int, is_done: bool) -> Iterator[list[str]]:
    """Raises at a statement, counted from 0 over all nodes; yields the list of sent statements."""
    sent: list[str] = []
    original = {name: getattr(Node, name) for name in ("execute", "insert")}

    def dying(name: str) -> Any:
        def act(self: Node, statement: str, *given: Any, **more: Any) -> Any:
            number = len(sent)
            sent.append(statement)
            if number == step and not is_done:
                raise Killed
            answer = original[name](self, statement, *given, **more)
            if number == step:
                raise Killed
            return answer

        return act

    for name in original:
        setattr(Node, name, dying(name))
    try:
        yield sent
    except Killed:
        pass
    finally:
        for name, function in original.items():
            setattr(Node, name, function)
