"""The foundation of jobs and analytics: settings, errors, ids, database, projects, accounts, limits and telemetry."""
