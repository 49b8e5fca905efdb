"""Reads logs in a subprocess, so that parsing and storing run on separate cores."""

import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import Empty, Queue

from copydesk.analytics.log_import.batches import ImportBatch, encode_views, read_batches
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.core.errors import UserFacingError
from copydesk.core.runtime import memory

READER_ENDED = b""
MAX_BATCHES_AHEAD = 8
"""How many encoded batches may wait at most. The reader continues while earlier batches are stored and folded."""


class ReaderDied(UserFacingError):
    message = "The process that reads the log ended unexpectedly. Import again: stored lines do not count twice."


def read_in_subprocess(request: ImportRequest) -> Iterator[ImportBatch]:
    """Yields the batches of `read_batches` from a subprocess, with encoded views.

    The subprocess reads a few batches ahead, and is terminated when the caller stops iterating.
    """
    context = get_context("spawn")
    receiving_end, sending_end = context.Pipe(duplex=False)
    reader = context.Process(target=_send_batches, args=(request, sending_end), daemon=True)
    reader.start()
    sending_end.close()
    queue: Queue[bytes] = Queue(MAX_BATCHES_AHEAD)
    receiver = threading.Thread(target=_receive_batches, args=(receiving_end, queue), name="receive", daemon=True)
    receiver.start()
    try:
        while (batch := _decode_batch(queue.get())) is not None:
            yield batch
    finally:
        reader.terminate()
        reader.join()
        while receiver.is_alive():
            with suppress(Empty):
                queue.get(timeout=0.01)
        receiving_end.close()


def _receive_batches(receiving_end: Connection, queue: Queue[bytes]) -> None:
    """Moves batches from the pipe to the queue until the reader ends, normally or not."""
    with suppress(EOFError, OSError):
        while True:
            queue.put(receiving_end.recv_bytes())
    queue.put(READER_ENDED)


def _send_batches(request: ImportRequest, sending_end: Connection) -> None:
    memory.tune_garbage_collector()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches both processes; the one that stores the views decides when to stop
    try:
        for batch in read_batches(request):
            sending_end.send_bytes(_encode_batch(batch))
        sending_end.send_bytes(pickle.dumps(None))
    except BrokenPipeError:
        pass
    except UserFacingError as error:
        sending_end.send_bytes(pickle.dumps(str(error)))


def _encode_batch(batch: ImportBatch) -> bytes:
    """Pickles a batch, with its views pickled separately, so that they can be kept without decoding them."""
    batch.encoded_views = encode_views(batch.views) if batch.views else b""
    batch.views = []
    return pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)


def _decode_batch(data: bytes) -> ImportBatch | None:
    if data == READER_ENDED:
        raise ReaderDied
    message = pickle.loads(data)  # noqa: S301 - from our own process
    if isinstance(message, str):
        raise UserFacingError(message)
    batch: ImportBatch | None = message
    return batch
