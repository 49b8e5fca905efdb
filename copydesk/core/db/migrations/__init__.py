"""Forward-only migrations, run once at start under a lock."""
