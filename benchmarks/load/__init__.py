"""Everything at once, for long, and with much behind it: what the service holds, alone and on several processes."""
