"""What the checks cost on repositories of thousands of pages."""
