"""Creates, verifies and restores backups."""
