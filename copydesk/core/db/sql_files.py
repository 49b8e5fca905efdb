"""Loads SQL statements from the `sql` folder of a package."""

from functools import cache
from importlib.resources import files


@cache
def load_sql_file(package: str, name: str) -> str:
    return files(package).joinpath("sql", f"{name}.sql").read_text("utf-8")
