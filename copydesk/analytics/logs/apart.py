"""Reading in a process of its own, so that parsing and storing have a core each."""

import pickle
import signal
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection

from copydesk.analytics.logs.importing import Batch, batches
from copydesk.analytics.logs.judging import Job
from copydesk.analytics.view import View
from copydesk.core import memory
from copydesk.core.errors import Explained


class ReaderDied(Explained):
    """The process that reads the log died."""


def batches_apart(job: Job) -> Iterator[Batch]:
    """What `batches` gives. The reader is ahead by one batch at most, and ends with whoever stops listening."""
    spawning = get_context("spawn")
    ours, theirs = spawning.Pipe(duplex=False)
    reader = spawning.Process(target=_read, args=(job, theirs), daemon=True)
    reader.start()
    theirs.close()
    try:
        while (batch := _received(ours)) is not None:
            yield batch
    finally:
        ours.close()
        reader.terminate()
        reader.join()


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


def _received(ours: Connection) -> Batch | None:
    try:
        told = pickle.loads(ours.recv_bytes())  # noqa: S301 - from our own process
    except (EOFError, OSError):
        raise ReaderDied(ReaderDied.__doc__) from None
    if told is None:
        return None
    if isinstance(told, str):
        raise Explained(told)
    batch: Batch = told[0]
    batch.views = list(map(View._make, told[1]))
    return batch
