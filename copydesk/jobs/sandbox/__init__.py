"""A sandbox for untrusted commands: no network, none of Copydesk's environment, and write access only to a copy."""
