"""Raw connections to a service, for requests that no well-behaved client would send."""

import re
import socket
from collections.abc import Iterable
from contextlib import suppress

TIMEOUT_SECONDS = 180.0


def connect(url: str, source: str = "127.0.0.1") -> socket.socket:
    """Returns a connection from this address of the machine, any of 127.0.0.0/8."""
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS, source_address=(source, 0))


def read_response(connection: socket.socket) -> bytes:
    """Returns everything until the service closes the connection."""
    answer = b""
    with suppress(ConnectionError):
        while more := connection.recv(65536):
            answer += more
    return answer


def read_one_response(connection: socket.socket) -> bytes:
    """Returns the next response: its headers, and its body if they give its length."""
    answer = b""
    with suppress(ConnectionError):
        while not _is_complete(answer) and (more := connection.recv(65536)):
            answer += more
    return answer


def _is_complete(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


def response_status(answer: bytes) -> int | None:
    """Returns the status of a response; None without a response."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else None


def error_code(answer: bytes) -> str:
    """Returns the code of an error in the API's format."""
    return answer.partition(b'"code":')[2].lstrip(b' "').partition(b'"')[0].decode()


def send_all(connection: socket.socket, parts: Iterable[bytes]) -> int:
    """Sends until the service closes the connection. Returns how many bytes it accepted."""
    bytes_sent = 0
    with suppress(ConnectionError, TimeoutError):
        for part in parts:
            connection.sendall(part)
            bytes_sent += len(part)
    return bytes_sent


def encode_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
