"""Where a pull request is opened: a forge finds, opens, updates, merges and closes it."""
