"""The agent: a model reads and changes a workspace in a loop, through a few tools. It has no token and no shell."""
