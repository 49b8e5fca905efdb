"""The store that the settings name: embedded in the data folder, or ClickHouse."""

from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.shared import SharedStore
from copydesk.core.db.database import Database
from copydesk.core.settings import BadSettings, Settings


def open_store(settings: Settings, database: Database) -> Store:
    """Nothing is connected before the first call."""
    if not settings.analytics_url:
        return SharedStore(settings.data.absolute())
    try:
        from copydesk.analytics.stores.clickhouse import ClickHouseStore  # an extra, and slow to load
    except ModuleNotFoundError:
        raise BadSettings(
            "COPYDESK_ANALYTICS_URL: ClickHouse needs its client: install Copydesk with its extra 'clickhouse'"
        ) from None
    try:
        return ClickHouseStore(settings.analytics_url, database)
    except ValueError as error:
        raise BadSettings(f"COPYDESK_ANALYTICS_URL: {error}") from None
