"""JSON logs of servers, load balancers and CDNs. Each format recognizes its records by names that no other has."""

from collections.abc import Mapping
from typing import Any

from copydesk.analytics.log_import.formats.json_lines import FieldNames, JsonFormat, Record
from copydesk.analytics.log_import.log_line import MALFORMED, LogLine
from copydesk.analytics.page_view import Dropped, DropReason

CADDY_FIELDS: FieldNames = {
    "when": ("ts",),
    "url": ("uri",),
    "method": ("method",),
    "status": ("status",),
    "address": ("client_ip", "remote_ip", "remote_addr"),
    "host": ("host",),
    "referrer": ("Referer",),
    "agent": ("User-Agent",),
    "accept": ("Accept",),
    "purpose": ("Sec-Purpose", "Purpose"),
    "type": ("Content-Type",),
}
CLOUDFLARE_FIELDS: FieldNames = {
    "when": ("EdgeStartTimestamp",),
    "url": ("ClientRequestURI", "ClientRequestPath"),
    "method": ("ClientRequestMethod",),
    "status": ("EdgeResponseStatus",),
    "address": ("ClientIP",),
    "host": ("ClientRequestHost",),
    "referrer": ("ClientRequestReferer",),
    "agent": ("ClientRequestUserAgent",),
    "type": ("EdgeResponseContentType",),
}
TRAEFIK_FIELDS: FieldNames = {
    "when": ("StartUTC", "time", "StartLocal"),
    "url": ("RequestPath",),
    "method": ("RequestMethod",),
    "status": ("DownstreamStatus",),
    "address": ("ClientHost", "ClientAddr"),
    "host": ("RequestHost",),
    "referrer": ("request_Referer",),
    "agent": ("request_User-Agent",),
    "forwarded": ("request_X-Forwarded-For",),
    "accept": ("request_Accept",),
    "purpose": ("request_Sec-Purpose",),
    "type": ("downstream_Content-Type", "origin_Content-Type"),
}
GCP_FIELDS: FieldNames = {
    "when": ("timestamp", "receiveTimestamp"),
    "url": ("httpRequest.requestUrl",),
    "method": ("httpRequest.requestMethod",),
    "status": ("httpRequest.status",),
    "address": ("httpRequest.remoteIp",),
    "referrer": ("httpRequest.referer",),
    "agent": ("httpRequest.userAgent",),
}
AZURE_FIELDS: FieldNames = {
    "when": ("time", "timeStamp", "timestamp"),
    "url": ("properties.originalRequestUriWithArgs", "properties.requestUri"),
    "method": ("properties.httpMethod",),
    "status": ("properties.httpStatusCode", "properties.httpStatus"),
    "address": ("properties.clientIp", "properties.clientIP"),
    "host": ("properties.originalHost", "properties.hostName", "properties.host"),
    "referrer": ("properties.referer", "properties.referrer"),
    "agent": ("properties.userAgent",),
}
FASTLY_FIELDS: FieldNames = {
    "when": ("timestamp", "time_start"),
    "url": ("url",),
    "request": ("request",),
    "method": ("request_method",),
    "status": ("response_status", "status"),
    "address": ("client_ip",),
    "host": ("host",),
    "referrer": ("request_referer",),
    "agent": ("request_user_agent",),
    "accept": ("request_accept_content", "request_accept"),
    "type": ("response_content_type", "resp_content_type"),
}
VERCEL_FIELDS: FieldNames = {
    "when": ("proxy.timestamp", "timestamp"),
    "url": ("proxy.path",),
    "method": ("proxy.method",),
    "status": ("proxy.statusCode", "statusCode"),
    "address": ("proxy.clientIp",),
    "host": ("proxy.host", "host"),
    "referrer": ("proxy.referer",),
    "agent": ("proxy.userAgent",),
    "event_id": ("requestId",),
}
NETLIFY_FIELDS: FieldNames = {
    "when": ("timestamp",),
    "url": ("url",),
    "method": ("method",),
    "status": ("status_code",),
    "address": ("client_ip",),
    "referrer": ("referrer",),
    "agent": ("user_agent",),
    "type": ("content_type",),
}
ENVOY_FIELDS: FieldNames = {
    "when": ("start_time",),
    "url": ("path", "x_envoy_original_path"),
    "method": ("method",),
    "status": ("response_code",),
    "address": ("x_forwarded_for", "downstream_remote_address"),
    "host": ("authority",),
    "referrer": ("referer",),
    "agent": ("user_agent",),
}
REQUEST_HEADERS = ("User-Agent", "Referer", "Accept", "Sec-Purpose", "Purpose")
VISITOR_SOURCES = ("eyeball", "unknown", "orangeToOrange", "")
"""Values of ClientRequestSource for visitors. Others are Cloudflare's fetches: workers, health checks, image
resizing."""
INTERNAL = Dropped(DropReason.INTERNAL)


class CaddyFormat(JsonFormat):
    """Caddy's format: the request is a nested record, and its headers are lists."""

    def __init__(self) -> None:
        super().__init__("caddy", CADDY_FIELDS, nested=False)

    def line_from_record(self, text: str, record: Record) -> LogLine | Dropped:
        request = record.get("request")
        if record.get("msg") != "handled request" or not isinstance(request, dict):
            return MALFORMED
        request_headers = _first_header_values(request, "headers", REQUEST_HEADERS)
        response_headers = _first_header_values(record, "resp_headers", ("Content-Type",))
        outcome = {name: record[name] for name in ("ts", "status") if name in record}
        return super().line_from_record(text, {**request, **request_headers, **response_headers, **outcome})


class CloudflareFormat(JsonFormat):
    def __init__(self) -> None:
        super().__init__("cloudflare", CLOUDFLARE_FIELDS, nested=False)

    def line_from_record(self, text: str, record: Record) -> LogLine | Dropped:
        return (
            super().line_from_record(text, record)
            if record.get("ClientRequestSource", "") in VISITOR_SOURCES
            else INTERNAL
        )


class AzureFormat(JsonFormat):
    """The access logs of Front Door and Application Gateway, among other logs such as those of the firewall."""

    def __init__(self) -> None:
        super().__init__("azure", AZURE_FIELDS, is_azure)

    def line_from_record(self, text: str, record: Record) -> LogLine | Dropped:
        properties = record["properties"]
        category = record.get("category", "")
        if isinstance(category, str) and category and not category.lower().endswith("accesslog"):
            return INTERNAL
        if properties.get("isReceivedFromClient") in (False, "false"):
            return INTERNAL  # a request of one server of Front Door to another
        agent = properties.get("userAgent")
        if isinstance(agent, str) and "+(" in agent and " " not in agent:
            # The first version of Application Gateway writes blanks as plus signs.
            record = {**record, "properties": {**properties, "userAgent": agent.replace("+", " ")}}
        return super().line_from_record(text, record)


class VercelFormat(JsonFormat):
    """Vercel's log drains. A request may have several records, for example with its output; it counts once.

    Records without a request are messages of a build, and status -1 means a revalidation in the background.
    """

    def __init__(self) -> None:
        super().__init__("vercel", VERCEL_FIELDS, lambda record: "deploymentId" in record and "source" in record)

    def line_from_record(self, text: str, record: Record) -> LogLine | Dropped:
        proxy = record.get("proxy")
        if not isinstance(proxy, dict) or proxy.get("statusCode") == -1:
            return INTERNAL
        return super().line_from_record(text, record)


def is_traefik(record: Record) -> bool:
    return "DownstreamStatus" in record or "RequestMethod" in record


def is_gcp(record: Record) -> bool:
    return isinstance(record.get("httpRequest"), dict)


def is_azure(record: Record) -> bool:
    return isinstance(record.get("properties"), dict) and ("category" in record or "operationName" in record)


def is_fastly(record: Record) -> bool:
    return "request_user_agent" in record and "client_ip" in record


def is_netlify(record: Record) -> bool:
    return "status_code" in record and "client_ip" in record and ("deploy_id" in record or "account_id" in record)


def is_envoy(record: Record) -> bool:
    return "response_code" in record and "start_time" in record and "authority" in record


def _first_header_values(record: Mapping[str, Any], key: str, names: tuple[str, ...]) -> dict[str, Any]:
    headers = record.get(key)
    if not isinstance(headers, dict):
        return {}
    return {name: values[0] for name in names if isinstance(values := headers.get(name), list) and values}
