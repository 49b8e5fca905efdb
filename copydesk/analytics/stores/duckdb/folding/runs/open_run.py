"""Finds runs and opens them."""

import os
from pathlib import Path

from copydesk.analytics.stores.duckdb.folding.runs.chained_run_file import ChainedRunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_file import FOOTER, RunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import unpack_layout
from copydesk.analytics.stores.errors import StoreDamaged
from copydesk.core.errors import StoreUnavailable


def open_run(path: Path, rows: int) -> RunFile:
    """Opens a run with this many rows. Raises StoreDamaged if the file is missing or damaged at its end."""
    _, _, layout, *_ = FOOTER.unpack(_read_footer(path))
    run_type = ChainedRunFile if unpack_layout(layout).has_chained_keys else RunFile
    return run_type(path, rows)


def get_run_folder(database_path: Path) -> Path:
    return database_path.with_name(f"{database_path.name}.visits")


def get_run_path(database_path: Path, run_id: int) -> Path:
    return get_run_folder(database_path) / f"{run_id:08}.run"


def _read_footer(path: Path) -> bytes:
    """Returns the end of a file, as long as a footer. Raises StoreDamaged if the file is missing or shorter."""
    try:
        with path.open("rb") as file:
            file.seek(-min(path.stat().st_size, FOOTER.size), os.SEEK_END)
            content = file.read()
    except FileNotFoundError:
        raise StoreDamaged from None
    except OSError as error:
        raise StoreUnavailable from error
    if len(content) < FOOTER.size:
        raise StoreDamaged
    return content
