"""Publishing: mirror, commit, push, pull request. The only place that holds a token; the agent never does."""
