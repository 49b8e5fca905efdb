"""The counters and histograms of this process. Labels have few fixed values, never a project, path, address or key."""

from copydesk.core.telemetry.metrics import MINUTES_BUCKETS, SECONDS_BUCKETS, Counter, Histogram

requests = Counter("copydesk_requests_total", "Requests by kind and status class.", ("kind", "status"))
request_seconds = Histogram(
    "copydesk_request_seconds", "Seconds until the response to a request began.", SECONDS_BUCKETS, ("kind",)
)
views = Counter(
    "copydesk_views_total",
    "Views sent: accepted, duplicate, or the reason for dropping them.",
    ("outcome",),
)
fold_seconds = Histogram("copydesk_fold_seconds", "Seconds per fold of waiting views.", SECONDS_BUCKETS)
folded_views = Counter("copydesk_folded_views_total", "Folded views.")
attempts = Counter(
    "copydesk_attempts_total",
    "Claimed runs: for the first time, or again after a worker died or released them.",
    ("kind",),
)
ended_runs = Counter("copydesk_runs_ended_total", "Runs that ended, by status and reason.", ("status", "reason"))
run_seconds = Histogram(
    "copydesk_run_seconds", "Seconds that workers spent on a run, over all attempts.", MINUTES_BUCKETS, ("status",)
)
publish_failures = Counter(
    "copydesk_publish_failures_total", "Runs that failed to push or to open the pull request, by reason.", ("reason",)
)
model_requests = Counter("copydesk_model_requests_total", "Requests to models.", ("provider", "outcome"))
model_seconds = Histogram(
    "copydesk_model_seconds", "Seconds until the response of a model was complete.", MINUTES_BUCKETS, ("provider",)
)
model_tokens = Counter(
    "copydesk_model_tokens_total", "Tokens sent to models and received from them.", ("provider", "way")
)
model_cost = Counter("copydesk_model_cost_usd_total", "Cost of models, if their price is known.", ("provider",))
webhook_attempts = Counter(
    "copydesk_webhook_attempts_total",
    "Attempts to deliver webhooks: delivered, retried later, given_up or cancelled.",
    ("outcome",),
)
webhook_seconds = Histogram(
    "copydesk_webhook_seconds",
    "Seconds until the receiver of a webhook answered or the attempt failed.",
    SECONDS_BUCKETS,
)

ALL_INSTRUMENTS = (
    requests, request_seconds, views, fold_seconds, folded_views, attempts, ended_runs, run_seconds, publish_failures,
    model_requests, model_seconds, model_tokens, model_cost, webhook_attempts, webhook_seconds,
)  # fmt: skip
