"""The counters and histograms of this process. Labels have few fixed values, never a project, path, address or key.

They are in no global registry: each desk has its own, which exposes them (`web/operations/metrics.py`).
"""

from prometheus_client import Counter, Histogram, disable_created_metrics

SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MINUTES_BUCKETS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a time for each counter, which nobody asked for

requests = Counter("copydesk_requests_total", "Requests by kind and status class.", ("kind", "status"), registry=None)
request_seconds = Histogram(
    "copydesk_request_seconds",
    "Seconds until the response to a request began.",
    ("kind",),
    registry=None,
    buckets=SECONDS_BUCKETS,
)
views = Counter(
    "copydesk_views_total",
    "Views sent: accepted, duplicate, or the reason for dropping them.",
    ("outcome",),
    registry=None,
)
fold_seconds = Histogram(
    "copydesk_fold_seconds", "Seconds per fold of waiting views.", registry=None, buckets=SECONDS_BUCKETS
)
folded_views = Counter("copydesk_folded_views_total", "Folded views.", registry=None)
attempts = Counter(
    "copydesk_attempts_total",
    "Claimed runs: for the first time, or again after a worker died or released them.",
    ("kind",),
    registry=None,
)
ended_runs = Counter(
    "copydesk_runs_ended_total", "Runs that ended, by status and reason.", ("status", "reason"), registry=None
)
run_seconds = Histogram(
    "copydesk_run_seconds",
    "Seconds that workers spent on a run, over all attempts.",
    ("status",),
    registry=None,
    buckets=MINUTES_BUCKETS,
)
publish_failures = Counter(
    "copydesk_publish_failures_total",
    "Runs that failed to push or to open the pull request, by reason.",
    ("reason",),
    registry=None,
)
model_requests = Counter("copydesk_model_requests_total", "Requests to models.", ("provider", "outcome"), registry=None)
model_seconds = Histogram(
    "copydesk_model_seconds",
    "Seconds until the response of a model was complete.",
    ("provider",),
    registry=None,
    buckets=MINUTES_BUCKETS,
)
model_tokens = Counter(
    "copydesk_model_tokens_total", "Tokens sent to models and received from them.", ("provider", "way"), registry=None
)
model_cost = Counter(
    "copydesk_model_cost_usd_total", "Cost of models, if their price is known.", ("provider",), registry=None
)
webhook_attempts = Counter(
    "copydesk_webhook_attempts_total",
    "Attempts to deliver webhooks: delivered, retried later, given_up or cancelled.",
    ("outcome",),
    registry=None,
)
webhook_seconds = Histogram(
    "copydesk_webhook_seconds",
    "Seconds until the receiver of a webhook answered or the attempt failed.",
    registry=None,
    buckets=SECONDS_BUCKETS,
)

ALL_INSTRUMENTS = (
    requests, request_seconds, views, fold_seconds, folded_views, attempts, ended_runs, run_seconds, publish_failures,
    model_requests, model_seconds, model_tokens, model_cost, webhook_attempts, webhook_seconds,
)  # fmt: skip
