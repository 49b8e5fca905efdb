"""The API of automations: its routes and schemas."""
