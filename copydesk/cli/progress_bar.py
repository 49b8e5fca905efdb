"""How far a copy is: a bar in a terminal, and nothing elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from copydesk.cli.output import find_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Drawn

    from copydesk.transfer.progress import Progress


@contextmanager
def progress() -> Iterator["Progress"]:
    console = find_terminal(stderr=True)
    if console is None:
        from copydesk.transfer.progress import Silent

        yield Silent()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Drawn

    columns = (BarColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Drawn(*columns, console=console, transient=True) as drawn:
        yield Bar(drawn)


class Bar:
    """Starts anew with each table."""

    def __init__(self, drawn: "Drawn") -> None:
        self._drawn, self._task = drawn, drawn.add_task("", total=None)

    def begin(self, what: str, total: int | None = None) -> None:
        self._drawn.reset(self._task, description=what, total=total)

    def advance(self, count: int) -> None:
        self._drawn.advance(self._task, count)
