"""Simulates a process that dies at a chosen statement, right before it is sent or right after it is done."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from copydesk.analytics.stores.clickhouse.connection.node import Node


class SimulatedKill(BaseException):
    """A BaseException, so that no handler of ours catches it: a killed process runs no handlers."""


@contextmanager
def kill_at_statement(step: int, is_done: bool) -> Iterator[list[str]]:
    """Raises at a statement, counted from 0 over all nodes; yields the list of sent statements."""
    statements: list[str] = []
    original = {name: getattr(Node, name) for name in ("execute", "insert")}

    def wrap_until_kill(name: str) -> Any:
        def act(self: Node, statement: str, *arguments: Any, **more: Any) -> Any:
            number = len(statements)
            statements.append(statement)
            if number == step and not is_done:
                raise SimulatedKill
            answer = original[name](self, statement, *arguments, **more)
            if number == step:
                raise SimulatedKill
            return answer

        return act

    for name in original:
        setattr(Node, name, wrap_until_kill(name))
    try:
        yield statements
    except SimulatedKill:
        pass
    finally:
        for name, function in original.items():
            setattr(Node, name, function)
