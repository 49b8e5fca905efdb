"""Folds new views into visitors, one shard at a time."""
