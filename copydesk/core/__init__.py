"""What both halves stand on: settings, errors, ids, the database, projects, keys, audit and limits."""
