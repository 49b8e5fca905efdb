"""Exports raw views and reports into files, one for each day, in a folder with a manifest."""
