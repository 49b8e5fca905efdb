"""What automations cost while nothing happens, and when a run has nothing to do."""
