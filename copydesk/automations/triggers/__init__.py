"""The triggers of runs: schedules, and changes of watched repositories."""
