"""What this process takes of its machine, in the names that Prometheus has for it."""

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
    """Lets this process open as many files and connections as it can use, as far as the system's hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def collect_process_metrics() -> list[Counter | Gauge]:
    """Memory and files are read where Linux tells them, and left out elsewhere."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = Counter("process_cpu_seconds_total", "Seconds of CPU that this process used.")
    cpu_seconds.add(by=usage.ru_utime + usage.ru_stime)
    metrics: list[Counter | Gauge] = [
        cpu_seconds,
        Gauge("process_start_time_seconds", "When this process was started, since 1970.", PROCESS_STARTED_AT),
        Gauge("process_threads", "Threads of this process.", threading.active_count()),
    ]
    if sys.platform == "linux":
        virtual, resident = (int(pages) * PAGE_BYTES for pages in Path("/proc/self/statm").read_text().split()[:2])
        metrics += [
            Gauge("process_resident_memory_bytes", "Memory that this process holds.", resident),
            Gauge("process_virtual_memory_bytes", "Memory that this process has addresses for.", virtual),
            Gauge("process_open_fds", "Files and connections that are open.", len(os.listdir("/proc/self/fd"))),
            Gauge("process_max_fds", "As many may be open.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        ]
    return metrics
