"""Commands about who has access: API keys and people."""
