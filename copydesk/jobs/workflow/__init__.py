"""The steps of a run, from the prompt to the pull request."""
