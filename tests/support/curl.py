"""A replacement for curl on machines without it: the few options that the documentation's examples use."""

import argparse
import sys
import urllib.error
import urllib.request
from http.client import HTTPResponse


def main() -> int:
    parser = argparse.ArgumentParser(prog="curl")
    parser.add_argument("url")
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-S", "--show-error", action="store_true")
    parser.add_argument("-N", "--no-buffer", action="store_true")
    parser.add_argument("-i", "--include", action="store_true")
    parser.add_argument("--fail-with-body", action="store_true")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data")
    parser.add_argument("-X", "--request")
    parser.add_argument("--json")
    parser.add_argument("--retry", type=int, help="ignored: the examples succeed at the first attempt")
    options = parser.parse_args()
    headers = dict(header.split(": ", 1) for header in options.header)
    body = options.data if options.json is None else options.json
    if options.json is not None:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    data = body.encode() if body is not None else None
    request = urllib.request.Request(options.url, data, headers, method=options.request)
    try:
        with urllib.request.urlopen(request) as response:
            print_response(response, options.include)
    except urllib.error.HTTPError as error:
        print_response(error, options.include)
        return 22 if options.fail_with_body else 0
    return 0


def print_response(response: HTTPResponse | urllib.error.HTTPError, include: bool) -> None:
    if include:
        headers = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
        sys.stdout.write(f"HTTP/1.1 {response.status} {response.reason}\r\n{headers}\r\n")
        sys.stdout.flush()
    for line in response:  # an event stream has no end yet
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
