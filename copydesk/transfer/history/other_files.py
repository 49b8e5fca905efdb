"""Recognizes files of Plausible and Umami that cannot be imported, and says which file to use instead."""

from collections.abc import Sequence

PLAUSIBLE_ADVICE = (
    "In Plausible, open the settings of the site, Imports & Exports, click Export to CSV, and import the zip archive."
)
UMAMI_ADVICE = (
    "Import website_event.csv: Umami Cloud exports it under Settings, Data. On your own server, export the table "
    "website_event from the database as CSV with the names of the columns in the first line."
)
DUMP_STARTS = ("--", "/*", "pgdmp", "insert into", "create table", "set ")
RATE_COLUMNS = {"bounce_rate", "conversion_rate", "views_per_visit", "unique_entrances", "unique_exits"}
UMAMI_CHART_COLUMNS = ({"x", "y"}, {"x", "t", "y"})
PLAUSIBLE_EVENT_COLUMNS = {"timestamp", "user_id", "pathname"}


def advise_on_file(name: str, columns: Sequence[str]) -> str | None:
    """Returns what a file is and what to import instead, or None if it is unknown. Columns are in lower case."""
    names = set(columns)
    if columns and columns[0].startswith(DUMP_STARTS):
        return f"{name} is a dump of a database. {UMAMI_ADVICE}"
    if "totaltime" in names or names in UMAMI_CHART_COLUMNS:
        return f"{name} is a download of Umami's dashboard, which has no days. {UMAMI_ADVICE}"
    if names & RATE_COLUMNS or names == {"date", "visitors"} or names == {"name", "visitors"}:
        return f"{name} is a download of Plausible's dashboard, for one period and one filter. {PLAUSIBLE_ADVICE}"
    if names >= PLAUSIBLE_EVENT_COLUMNS:
        return f"{name} has single events of Plausible, which cannot be imported. {PLAUSIBLE_ADVICE}"
    if "website_event" in name.lower() and columns:
        return f"{name} does not have the columns session_id, url_path, event_type and created_at. {UMAMI_ADVICE}"
    return None
