"""The commands. Each module has one command or one group of commands."""
