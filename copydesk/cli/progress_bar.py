"""A progress bar for copying data: shown in a terminal, silent elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from copydesk.cli.output import find_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from copydesk.transfer.progress import Progress


@contextmanager
def show_progress() -> Iterator["Progress"]:
    console = find_terminal(stderr=True)
    if console is None:
        from copydesk.transfer.progress import SilentProgress

        yield SilentProgress()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with RichProgress(*columns, console=console, transient=True) as rich_progress:
        yield ProgressBar(rich_progress)


class ProgressBar:
    """A Rich progress bar that restarts with each table."""

    def __init__(self, rich_progress: "RichProgress") -> None:
        self._rich_progress, self._task = rich_progress, rich_progress.add_task("", total=None)

    def start_stage(self, stage: str, total: int | None = None) -> None:
        self._rich_progress.reset(self._task, description=stage, total=total)

    def advance(self, count: int) -> None:
        self._rich_progress.advance(self._task, count)
