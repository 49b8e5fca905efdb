"""The tools: what each takes, does and returns. They know the API, and nothing of the protocol."""
