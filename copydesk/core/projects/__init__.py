"""Projects, their options and their encrypted secrets."""
