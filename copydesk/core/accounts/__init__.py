"""People, their sessions and passwords, and the API keys of projects."""
