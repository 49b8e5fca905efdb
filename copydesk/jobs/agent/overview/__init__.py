"""What a model is told about the repositories before its first turn."""
