"""Asks one address of a Copydesk; exit code 0 when it answers 200. The image has no curl, and needs none."""

import sys
from http.client import HTTPConnection, HTTPException


def main(host: str, port: str, path: str) -> int:
    connection = HTTPConnection(host, int(port), timeout=4)  # straight there, whatever proxy the environment names
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        print(f"{host}:{port} does not answer: {error}", file=sys.stderr)  # noqa: T201
        return 1
    if answer.status != 200:
        print(f"{path} says {answer.status}: {said}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
