"""Opens runs of all formats."""

from pathlib import Path

from copydesk.analytics.stores.duckdb.folding.runs.earlier_run_file import EarlierRunFile, is_earlier_run
from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile

Run = RunFile | EarlierRunFile


def open_run(path: Path, rows: int) -> Run:
    """Opens a run with this many rows. Raises StoreDamaged if the file is missing or damaged at its end."""
    return EarlierRunFile(path, rows) if is_earlier_run(path) else RunFile(path, rows)
