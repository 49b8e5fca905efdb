"""The agent: think, act, observe. It works on a workspace through a few tools, and holds no token and no shell."""
