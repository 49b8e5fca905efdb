"""The Model Context Protocol: jobs, automations and analytics as tools, over stdio and over HTTP."""
