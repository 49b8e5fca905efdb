"""What a run publishes: its evidence, its description and its pull request."""
