"""A TCP proxy between a process and a server, which simulates network failures."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

CHUNK_BYTES = 1 << 16
Pair = tuple[socket.socket, socket.socket]


@dataclass
class TcpProxy:
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
        threading.Thread(target=self._accept_connections, daemon=True).start()

    def cut(self) -> int:
        """Resets every connection, as a crashed router does; returns how many there were."""
        return self._end_connections(_reset_connection)

    def half_close(self) -> int:
        """Closes the server's direction and leaves the client's open: a reader sees the end, a writer does not."""
        return self._end_connections(lambda line: line.shutdown(socket.SHUT_WR), both=False)

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

    def _end_connections(self, how: Callable[[socket.socket], object], *, both: bool = True) -> int:
        with self._lock:
            pairs, self._pairs = self._pairs, self._pairs if not both else []
        for client, server in pairs:
            for line in (client, server) if both else (client,):
                with suppress(OSError):
                    how(line)
        return len(pairs)

    def _accept_connections(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            try:
                server = self.connect()
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.append((client, server))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, target, (client, server)), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, pair: Pair) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                time.sleep(self.delay)
                while self.is_silent:
                    time.sleep(0.05)
                if not self._is_open(pair):
                    return  # the connection stays silent
                target.sendall(data)
        except OSError:
            pass
        if self._is_open(pair):
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    def _is_open(self, pair: Pair) -> bool:
        with self._lock:
            return pair in self._pairs


def _reset_connection(line: socket.socket) -> None:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()


@contextmanager
def tcp_proxy(connect: Callable[[], socket.socket]) -> Iterator[TcpProxy]:
    proxy = TcpProxy(connect)
    try:
        yield proxy
    finally:
        proxy.close()
