"""A place to run a stranger's command: no network, none of our environment, nothing writable but a copy."""
