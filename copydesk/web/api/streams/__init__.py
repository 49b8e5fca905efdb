"""Streams of job events: live, resumable, and bounded in number."""
