"""The pages of the prompt library."""
