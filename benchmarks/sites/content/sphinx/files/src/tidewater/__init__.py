"""Sends events to a Tidewater server."""


class Client:
    """Sends events. A client keeps one connection open."""

    def send(self, topic: str, body: bytes) -> str:
        """Send one event and return its ID.

        Raises :exc:`tidewater.ConnectionRefused` if the server is unavailable.
        """
        return f"{topic}/{len(body)}"


class ConnectionRefused(Exception):
    """The server is unavailable."""
