"""Pages with a problem: paths that have no page, and pages whose sources changed."""
