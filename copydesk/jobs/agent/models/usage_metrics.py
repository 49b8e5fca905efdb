"""Records the usage of model requests in metrics and traces, by provider and without any content."""

import time

from copydesk.core.telemetry import instruments, traces
from copydesk.jobs.agent.models.model_names import API_KEY_VARIABLES
from copydesk.jobs.job import Usage


def record_model_usage(model: str, started: float, usage: Usage, outcome: str) -> None:
    """Records one call of a model. `started` is a value of time.monotonic(); `outcome` is one word."""
    provider = model.partition(":")[0]
    if provider not in API_KEY_VARIABLES and provider != "mechanic":
        provider = "other"
    instruments.model_requests.labels(provider, outcome).inc(max(1, usage.requests))
    instruments.model_seconds.labels(provider).observe(time.monotonic() - started)
    instruments.model_tokens.labels(provider, "in").inc(usage.input_tokens)
    instruments.model_tokens.labels(provider, "out").inc(usage.output_tokens)
    if usage.cost_usd is not None:
        instruments.model_cost.labels(provider).inc(usage.cost_usd)
    traces.add_span_attributes(provider=provider, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
