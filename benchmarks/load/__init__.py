"""Loads the service with everything at once, for long, on filled stores; as one process and as several."""
