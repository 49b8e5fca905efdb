"""The streamable HTTP transport: requests that stand alone, and sessions of clients that begin with `initialize`."""
