"""The SQL of the files beside the code, read once."""

from functools import cache
from importlib.resources import files


@cache
def load_sql(name: str) -> str:
    return files("copydesk.analytics.stores.clickhouse").joinpath("sql", f"{name}.sql").read_text("utf-8")
