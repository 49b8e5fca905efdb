"""Sends events to a Tidewater server."""


class Client:
    """Sends events. A client keeps one connection open."""

    def __init__(self, server: str, secret: str) -> None:
        self.server = server
        self.secret = secret

    def send(self, topic: str, body: bytes) -> str:
        """Sends one event and returns its ID."""
        return f"{self.server}/{topic}/{len(body)}"
