"""Reading in a process of its own, so that parsing and storing have a core each."""

import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import Empty, Queue

from copydesk.analytics.log_import.batches import Batch, batches
from copydesk.analytics.log_import.line_converter import Job
from copydesk.analytics.page_view import View
from copydesk.core.errors import Explained
from copydesk.core.runtime import memory

NOTHING = b""
AHEAD = 8
"""Batches that wait at most, packed: while those before them are folded, reading goes on."""


class ReaderDied(Explained):
    message = "The process that reads the log died."


def batches_apart(job: Job) -> Iterator[Batch]:
    """What `batches` gives. The reader is ahead by a few batches, and ends with whoever stops listening."""
    spawning = get_context("spawn")
    ours, theirs = spawning.Pipe(duplex=False)
    reader = spawning.Process(target=_read, args=(job, theirs), daemon=True)
    reader.start()
    theirs.close()
    waiting: Queue[bytes] = Queue(AHEAD)
    receiver = threading.Thread(target=_receive, args=(ours, waiting), name="receive", daemon=True)
    receiver.start()
    try:
        while (batch := _unpacked(waiting.get())) is not None:
            yield batch
    finally:
        reader.terminate()
        reader.join()
        while receiver.is_alive():
            with suppress(Empty):
                waiting.get(timeout=0.01)
        ours.close()


def _receive(ours: Connection, waiting: Queue[bytes]) -> None:
    """Until the reader has ended, well or not."""
    with suppress(EOFError, OSError):
        while True:
            waiting.put(ours.recv_bytes())
    waiting.put(NOTHING)


def _read(job: Job, theirs: Connection) -> None:
    memory.settle()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells both, and who keeps the views decides
    try:
        for batch in batches(job):
            theirs.send_bytes(_packed(batch))
        theirs.send_bytes(pickle.dumps(None))
    except BrokenPipeError:
        pass
    except Explained as refusal:
        theirs.send_bytes(pickle.dumps(str(refusal)))


def _packed(batch: Batch) -> bytes:
    """Views as plain tuples, which cost a quarter of the time."""
    views, batch.views = batch.views, []
    return pickle.dumps((batch, [tuple(view) for view in views]), pickle.HIGHEST_PROTOCOL)


def _unpacked(packed: bytes) -> Batch | None:
    if packed == NOTHING:
        raise ReaderDied
    told = pickle.loads(packed)  # noqa: S301 - from our own process
    if told is None:
        return None
    if isinstance(told, str):
        raise Explained(told)
    batch: Batch = told[0]
    batch.views = list(map(View._make, told[1]))
    return batch
