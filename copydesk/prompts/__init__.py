"""The prompt library: templates with fields, from which people and programs start jobs."""
