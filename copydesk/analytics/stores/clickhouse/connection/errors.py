"""Translates errors of ClickHouse into errors that tell the operator what to fix."""

import logging

from clickhouse_connect.driver.exceptions import ClickHouseError, Error
from urllib3.exceptions import HTTPError

from copydesk.analytics.stores.errors import StoreFull
from copydesk.core.errors import StoreUnavailable

log = logging.getLogger(__name__)

ACCESS_DENIED_CODES = {192, 193, 194, 497, 516}
DISK_FULL_CODES = {75, 243}
TRANSIENT_CODES = {
    159, 160, 164, 173, 202, 203, 209, 210, 225, 236, 241, 242, 246, 252, 279, 285, 286, 289, 319, 341, 394, 415, 425,
    439, 594, 692, 999,
}  # fmt: skip
"""Error codes of ClickHouse that may pass: too busy, too many parts, read-only, out of memory, shutting down, a replica
or ClickHouse Keeper unavailable, and similar ones."""


class StoreAccessDenied(StoreUnavailable):
    code = "store_refuses"
    message = "ClickHouse rejected the user or password in COPYDESK_ANALYTICS_URL, or the user lacks a permission."


class ClusterNotFound(StoreUnavailable):
    code = "store_unknown_cluster"
    message = "ClickHouse has no cluster with the name in COPYDESK_ANALYTICS_URL."


class StoreBusy(StoreUnavailable):
    code = "store_busy"
    message = "Another process has been updating the counts for a while. Try again shortly."


class ReplicaLagging(StoreUnavailable):
    code = "store_lags"
    message = "ClickHouse does not return all stored page views yet. A replica may be lagging. Try again shortly."


def translate_error(error: Exception) -> Exception:
    """Returns an error that tells the operator what to do.

    Returns errors of our code, such as invalid SQL, unchanged.
    """
    if isinstance(error, HTTPError | OSError):
        return StoreUnavailable()
    if not isinstance(error, ClickHouseError):
        return error
    code = error.code if isinstance(error, Error) else None
    if code in ACCESS_DENIED_CODES:
        return StoreAccessDenied()
    if code in DISK_FULL_CODES or "No space left" in str(error):
        return StoreFull()
    if code is None or code in TRANSIENT_CODES:
        return StoreUnavailable()
    return error
