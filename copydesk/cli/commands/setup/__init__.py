"""Commands that check an installation, and that set up a shell."""
