"""The supported log formats by name."""

from collections.abc import Callable
from functools import partial

from copydesk.analytics.log_import.formats import patterns, vendor_json
from copydesk.analytics.log_import.formats.base import LogFormat
from copydesk.analytics.log_import.formats.json_lines import JSON_LINES_FIELDS, JsonFormat, JsonLinesFormat
from copydesk.analytics.log_import.formats.text import TextFormat
from copydesk.analytics.log_import.formats.w3c import CloudFrontFormat, W3CFormat

AUTO_FORMAT = "auto"
WEAK_FORMAT = "common"
"""The format that a truncated line of another format may match. It applies only if most lines match no other."""
AGENT_FORMATS = ("combined", "vhost")
"""The formats whose lines match the weak format if they are cut off before the user agent."""
FORMATS: dict[str, Callable[[], LogFormat]] = {
    "combined": partial(TextFormat, "combined"),
    "vhost": partial(TextFormat, "vhost", host=True),
    "common": partial(TextFormat, "common", agent=False),
    "w3c": W3CFormat,
    "cloudfront": CloudFrontFormat,
    "alb": partial(
        patterns.PatternFormat,
        "alb",
        (patterns.ALB_PATTERN, patterns.CLASSIC_ELB_PATTERN),
        patterns.adapt_elb,
    ),
    "s3": partial(patterns.PatternFormat, "s3", (patterns.S3_PATTERN,), patterns.adapt_s3),
    "envoy": partial(
        patterns.PatternFormat, "envoy", (patterns.ENVOY_PATTERN, patterns.ISTIO_PATTERN), patterns.adapt_envoy
    ),
    "bunny": partial(patterns.PatternFormat, "bunny", (patterns.BUNNY_PATTERN,), patterns.adapt_bunny),
    "caddy": vendor_json.CaddyFormat,
    "traefik": partial(JsonFormat, "traefik", vendor_json.TRAEFIK_FIELDS, vendor_json.is_traefik),
    "cloudflare": vendor_json.CloudflareFormat,
    "gcp": partial(JsonFormat, "gcp", vendor_json.GCP_FIELDS, vendor_json.is_gcp),
    "azure": vendor_json.AzureFormat,
    "fastly": partial(JsonFormat, "fastly", vendor_json.FASTLY_FIELDS, vendor_json.is_fastly),
    "vercel": vendor_json.VercelFormat,
    "netlify": partial(JsonFormat, "netlify", vendor_json.NETLIFY_FIELDS, vendor_json.is_netlify),
    "envoy-json": partial(JsonFormat, "envoy-json", vendor_json.ENVOY_FIELDS, vendor_json.is_envoy),
    "jsonl": partial(JsonLinesFormat, "jsonl", JSON_LINES_FIELDS),
}
