"""The pages on which a project's analytics are shared."""
