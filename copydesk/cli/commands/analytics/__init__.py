"""The commands `copydesk analytics …`."""
