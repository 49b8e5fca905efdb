"""The pages of webhooks that Copydesk sends, and their deliveries."""
