"""Backs up, verifies and restores the stores, and moves them from one engine to another."""
