"""Ends the process without Python's teardown of modules, which is slow and makes DuckDB print warnings."""

import atexit
import os
import sys


class QuickExit:
    """Ends the process with `status` after all other exit handlers. Create it before they are registered.

    By then the interpreter has waited for threads, and commands have closed their stores. Only the teardown of modules
    remains. It frees memory that the system frees anyway, and during it DuckDB's bindings print every object that a
    daemon thread or `gc.freeze` still holds to standard error ("nanobind: leaked …").
    """

    def __init__(self) -> None:
        self.status = 1
        """The exit code. Stays 1, the code of an unhandled error, until another code is known."""
        self._process_id = os.getpid()
        atexit.register(self._end_process)

    def _end_process(self) -> None:
        """Ends the process. In a forked child, and if output cannot be written, leaves that to the interpreter, which
        reports the failed write."""
        if os.getpid() != self._process_id:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            return
        os._exit(self.status)
