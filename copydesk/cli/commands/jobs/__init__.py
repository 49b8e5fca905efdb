"""Commands about jobs, the prompts that start them, and their pull requests."""
