"""Shows analytics to people outside: links to public pages, badges, and a weekly summary by mail."""
