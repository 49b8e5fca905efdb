"""Commands that share analytics: links, and mail."""
