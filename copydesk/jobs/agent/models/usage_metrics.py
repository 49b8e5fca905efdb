"""What a model's answer took, for the figures and the trace: whose it was, never what it said."""

import time

from copydesk.core.telemetry import instruments as measured
from copydesk.core.telemetry import traces
from copydesk.jobs.agent.models.model_names import KEYS
from copydesk.jobs.job import Usage


def note(model: str, began: float, usage: Usage, outcome: str) -> None:
    """`began` is by time.monotonic(), `outcome` one word."""
    provider = model.partition(":")[0]
    if provider not in KEYS and provider != "mechanic":
        provider = "other"
    measured.model_requests.add(provider, outcome, by=max(1, usage.requests))
    measured.model_seconds.observe(time.monotonic() - began, provider)
    measured.model_tokens.add(provider, "in", by=usage.input_tokens)
    measured.model_tokens.add(provider, "out", by=usage.output_tokens)
    if usage.cost_usd is not None:
        measured.model_cost.add(provider, by=usage.cost_usd)
    traces.tell(provider=provider, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
