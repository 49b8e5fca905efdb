"""CPU, memory and open files of this process, with the metric names that Prometheus uses for them."""

import os
import resource
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from copydesk.core.telemetry.metrics import Counter, Gauge

PROCESS_STARTED_AT = time.time()
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MAX_OPEN_FILES = 16_384


def raise_open_files_limit() -> None:
    """Increases the limit of open files and connections to MAX_OPEN_FILES, or to the hard limit if that is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def collect_process_metrics() -> list[Counter | Gauge]:
    """Returns the metrics of this process. Memory and open files are included on Linux only."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = Counter("process_cpu_seconds_total", "CPU time of this process in seconds.")
    cpu_seconds.add(by=usage.ru_utime + usage.ru_stime)
    metrics: list[Counter | Gauge] = [
        cpu_seconds,
        Gauge("process_start_time_seconds", "When this process started, in seconds since 1970.", PROCESS_STARTED_AT),
        Gauge("process_threads", "Threads of this process.", threading.active_count()),
    ]
    if sys.platform == "linux":
        virtual, resident = (int(pages) * PAGE_BYTES for pages in Path("/proc/self/statm").read_text().split()[:2])
        metrics += [
            Gauge("process_resident_memory_bytes", "Resident memory of this process in bytes.", resident),
            Gauge("process_virtual_memory_bytes", "Virtual memory of this process in bytes.", virtual),
            Gauge("process_open_fds", "Open files and connections.", len(os.listdir("/proc/self/fd"))),
            Gauge(
                "process_max_fds",
                "Maximum number of open files and connections.",
                resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            ),
        ]
    return metrics
