"""Opens the analytics store of the settings: the embedded one in the data folder, or ClickHouse."""

from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.shared import SharedStore
from copydesk.core.db.database import Database
from copydesk.core.settings import BadSettings, Settings


def open_store(settings: Settings, database: Database) -> Store:
    """Returns the store without connecting; its first call connects. Raises BadSettings for an invalid URL."""
    if not settings.analytics_url:
        return SharedStore(settings.require_data_folder())
    try:
        from copydesk.analytics.stores.clickhouse import (
            ClickHouseStore,
        )  # an optional dependency that is slow to import
    except ModuleNotFoundError:
        raise BadSettings(
            "COPYDESK_ANALYTICS_URL: the ClickHouse client is missing. Install Copydesk with the extra 'clickhouse'."
        ) from None
    try:
        return ClickHouseStore(settings.analytics_url, database)
    except ValueError as error:
        raise BadSettings(f"COPYDESK_ANALYTICS_URL: {error}") from None
