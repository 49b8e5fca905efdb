"""What starts runs: schedules, and changes of watched repositories."""
