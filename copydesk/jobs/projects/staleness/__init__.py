"""Finds pages whose sources changed after the page was last edited."""
