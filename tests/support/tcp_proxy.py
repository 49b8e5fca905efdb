"""A TCP proxy between a process and a server, which simulates network failures."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

CHUNK = 1 << 16
Pair = tuple[socket.socket, socket.socket]


@dataclass
class Proxy:
    """Each connection has two threads, one per direction. A failure affects all connections."""

    connect: Callable[[], socket.socket]
    delay: float = 0.0
    """Seconds of delay for each chunk."""
    is_silent: bool = False
    """Accepts everything and forwards nothing: neither side notices that the other one is gone."""
    refuses: bool = False
    """Closes new connections immediately."""
    _pairs: list[Pair] = field(default_factory=list)
    _forgotten: list[Pair] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._let_in, daemon=True).start()

    def cut(self) -> int:
        """Resets every connection, as a crashed router does; returns how many there were."""
        return self._end(_reset)

    def half_close(self) -> int:
        """Closes the server's direction and leaves the client's open: a reader sees the end, a writer does not."""
        return self._end(lambda line: line.shutdown(socket.SHUT_WR), both=False)

    def forget(self) -> None:
        """Silences existing connections permanently, while new ones work: like a firewall that lost its table."""
        with self._lock:
            self._forgotten += self._pairs
            self._pairs = []

    def close(self) -> None:
        self._listener.close()
        self.forget()
        for pair in self._forgotten:
            for line in pair:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
                line.close()

    def _end(self, how: Callable[[socket.socket], object], *, both: bool = True) -> int:
        with self._lock:
            pairs, self._pairs = self._pairs, self._pairs if not both else []
        for near, far in pairs:
            for line in (near, far) if both else (near,):
                with suppress(OSError):
                    how(line)
        return len(pairs)

    def _let_in(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                near.close()
                continue
            try:
                far = self.connect()
            except OSError:
                near.close()
                continue
            with self._lock:
                self._pairs.append((near, far))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, target, (near, far)), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, pair: Pair) -> None:
        try:
            while data := source.recv(CHUNK):
                time.sleep(self.delay)
                while self.is_silent:
                    time.sleep(0.05)
                if not self._knows(pair):
                    return  # the connection stays silent
                target.sendall(data)
        except OSError:
            pass
        if self._knows(pair):
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    def _knows(self, pair: Pair) -> bool:
        with self._lock:
            return pair in self._pairs


def _reset(line: socket.socket) -> None:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()


@contextmanager
def proxied(connect: Callable[[], socket.socket]) -> Iterator[Proxy]:
    proxy = Proxy(connect)
    try:
        yield proxy
    finally:
        proxy.close()
