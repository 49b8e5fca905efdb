"""The guide: the documentation that this version of Copydesk comes with, as pages of the service."""
