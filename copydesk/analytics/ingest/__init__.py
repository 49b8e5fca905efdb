"""Turns events into page views and stores them."""
