"""The pages account, people, audit log and system."""
