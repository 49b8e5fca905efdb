"""Publishing: mirror, commit, push and pull request. Only this package uses the forge's token; the agent never does."""
