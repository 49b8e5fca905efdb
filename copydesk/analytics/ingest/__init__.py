"""Converts events to page views and stores them."""
