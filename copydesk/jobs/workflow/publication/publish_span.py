"""The trace span of publishing, which also counts failures."""

from collections.abc import Iterator
from contextlib import contextmanager

from copydesk.core.telemetry import instruments, traces
from copydesk.jobs.job import JobFailed


@contextmanager
def start_publish_span() -> Iterator[None]:
    with traces.start_span("publish"):
        try:
            yield
        except JobFailed as failure:
            instruments.publish_failures.labels(failure.reason).inc()
            raise
