"""Stands in for curl where a machine has none: the few options that the documentation's examples use."""

import argparse
import sys
import urllib.error
import urllib.request


def main() -> int:
    parser = argparse.ArgumentParser(prog="curl")
    parser.add_argument("url")
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-S", "--show-error", action="store_true")
    parser.add_argument("--fail-with-body", action="store_true")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data")
    parser.add_argument("--json")
    options = parser.parse_args()
    headers = dict(header.split(": ", 1) for header in options.header)
    body = options.data if options.json is None else options.json
    if options.json is not None:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    request = urllib.request.Request(options.url, body.encode() if body is not None else None, headers)
    try:
        with urllib.request.urlopen(request) as response:
            sys.stdout.buffer.write(response.read())
    except urllib.error.HTTPError as error:
        sys.stdout.buffer.write(error.read())
        return 22 if options.fail_with_body else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
