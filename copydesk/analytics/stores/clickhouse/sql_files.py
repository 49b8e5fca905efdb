"""Loads the SQL files of this package."""

from functools import partial

from copydesk.core.db.sql_files import load_sql_file

load_sql = partial(load_sql_file, __package__)
