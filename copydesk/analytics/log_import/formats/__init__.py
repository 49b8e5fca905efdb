"""The formats of access logs, and the detection of a log's format."""

from copydesk.analytics.log_import.formats.base import LogFormat
from copydesk.analytics.log_import.formats.custom import CUSTOM_FORMAT, CustomFormat, InvalidFieldMap, parse_field_map
from copydesk.analytics.log_import.formats.detection import (
    MALFORMED_REASONS,
    DetectedFormat,
    UnknownLogFormat,
    create_format,
    detect_format,
)
from copydesk.analytics.log_import.formats.registry import AUTO_FORMAT, FORMATS, WEAK_FORMAT

__all__ = [
    "AUTO_FORMAT",
    "CUSTOM_FORMAT",
    "FORMATS",
    "MALFORMED_REASONS",
    "WEAK_FORMAT",
    "CustomFormat",
    "DetectedFormat",
    "InvalidFieldMap",
    "LogFormat",
    "UnknownLogFormat",
    "create_format",
    "detect_format",
    "parse_field_map",
]
