"""Tells whether the optional dependency, the SDK of MCP, is installed. Does not import it."""

from functools import cache
from importlib.util import find_spec

INSTALL_HINT = (
    "In a checkout, run 'scripts/setup server'. If you installed the package, run: pip install 'copydesk[mcp]'"
)


@cache
def is_sdk_installed() -> bool:
    try:
        return all(find_spec(name) is not None for name in ("mcp", "mcp_types"))
    except ValueError:  # the import of one is disabled
        return False
