"""What this process counts. Labels come from short fixed lists: no project, path, address or key is ever one."""

from copydesk.core.telemetry.metrics import MINUTES_BUCKETS, SECONDS_BUCKETS, Counter, Histogram

requests = Counter("copydesk_requests_total", "Requests by kind and class of status.", ("kind", "status"))
request_seconds = Histogram(
    "copydesk_request_seconds", "Seconds until a request's answer began.", SECONDS_BUCKETS, ("kind",)
)
views = Counter(
    "copydesk_views_total",
    "Views that were sent: accepted, duplicate, or the reason they were dropped for.",
    ("outcome",),
)
fold_seconds = Histogram("copydesk_fold_seconds", "Seconds that a fold of waiting views took.", SECONDS_BUCKETS)
folded_views = Counter("copydesk_folded_views_total", "Views that were folded.")
attempts = Counter(
    "copydesk_attempts_total", "Runs taken up: for the first time, handed back before, or taken over.", ("kind",)
)
ended_runs = Counter("copydesk_runs_ended_total", "Runs that ended, by status and reason.", ("status", "reason"))
run_seconds = Histogram(
    "copydesk_run_seconds", "Seconds from a run's first start to its end.", MINUTES_BUCKETS, ("status",)
)
publish_failures = Counter(
    "copydesk_publish_failures_total", "Runs that failed at pushing or at the pull request, by reason.", ("reason",)
)
model_requests = Counter("copydesk_model_requests_total", "Requests to models.", ("provider", "outcome"))
model_seconds = Histogram(
    "copydesk_model_seconds", "Seconds that a model took to answer.", MINUTES_BUCKETS, ("provider",)
)
model_tokens = Counter("copydesk_model_tokens_total", "Tokens sent to models and got from them.", ("provider", "way"))
model_cost = Counter("copydesk_model_cost_usd_total", "What models cost, where the price is known.", ("provider",))

ALL_INSTRUMENTS = (
    requests, request_seconds, views, fold_seconds, folded_views, attempts, ended_runs, run_seconds, publish_failures,
    model_requests, model_seconds, model_tokens, model_cost,
)  # fmt: skip
