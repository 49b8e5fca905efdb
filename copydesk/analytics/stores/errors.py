"""The errors of analytics stores, as users see them."""

from collections.abc import Sequence
from datetime import date

from copydesk.core.errors import RequestError, StoreUnavailable


class StoreFull(StoreUnavailable):
    code = "store_full"
    message = (
        "The analytics store cannot write, probably because the disk is full. Nothing from this request was stored."
    )


class StoreInUse(StoreUnavailable):
    code = "store_in_use"
    message = "The analytics store is open in another process, and DuckDB allows only one. Stop it, or use ClickHouse."


class StoreDamaged(StoreUnavailable):
    code = "store_damaged"
    message = "The analytics store is damaged and cannot be read. Restore its file from a backup."


class StoreSchemaNewer(StoreUnavailable):
    code = "store_newer"
    message = "The analytics store was written by a newer version of Copydesk. Upgrade this server."


class RawViewsDeleted(RequestError):
    message = "Raw views of these days were deleted, so their numbers cannot be corrected."

    @classmethod
    def for_days(cls, days: Sequence[int]) -> "RawViewsDeleted":
        first_day = date.fromordinal(date(1970, 1, 1).toordinal() + days[0]).isoformat()
        return cls(
            f"Raw views of {len(days)} of these days (the first is {first_day}) were deleted, so their numbers cannot "
            "be corrected. Nothing was changed."
        )


class HoursUnknown(RequestError):
    code = "raw_views_deleted"
    message = "Raw views of these days were deleted, so their hours are unknown. Use interval=day."


class DayOutOfRange(RequestError):
    message = "A page view must be dated between 1970-01-02 and 2149-06-05."
