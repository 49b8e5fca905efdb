"""Finds runs, and opens those of all formats."""

import os
from pathlib import Path

from copydesk.analytics.stores.duckdb.folding.runs.chained_run_file import ChainedRunFile
from copydesk.analytics.stores.duckdb.folding.runs.earlier_pages import SPLIT_PAGE_FOOTER, FixedPageRun, SplitPageRun
from copydesk.analytics.stores.duckdb.folding.runs.earlier_run_file import EARLIER_FORMATS, EarlierRunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile
from copydesk.core.errors import StoreUnavailable

Run = RunFile | EarlierRunFile


def open_run(path: Path, rows: int) -> Run:
    """Opens a run with this many rows. Raises StoreDamaged if the file is missing or damaged at its end."""
    end = _read_end(path)
    if any(end[-footer.size :].startswith(mark) for mark, footer in EARLIER_FORMATS):
        return EarlierRunFile(path, rows)
    for run_type in (FixedPageRun, SplitPageRun, ChainedRunFile):
        if end[-run_type.footer.size :].startswith(run_type.mark):
            return run_type(path, rows)
    return RunFile(path, rows)


def get_run_folder(database_path: Path) -> Path:
    return database_path.with_name(f"{database_path.name}.visits")


def get_run_path(database_path: Path, run_id: int) -> Path:
    return get_run_folder(database_path) / f"{run_id:08}.run"


def _read_end(path: Path) -> bytes:
    """Returns the bytes of a file that may be its footer; none if it is missing."""
    try:
        with path.open("rb") as file:
            file.seek(-min(path.stat().st_size, SPLIT_PAGE_FOOTER.size), os.SEEK_END)
            return file.read()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StoreUnavailable from error
