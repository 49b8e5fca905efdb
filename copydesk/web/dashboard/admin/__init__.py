"""Pages of administrators: people, audit log, system."""
