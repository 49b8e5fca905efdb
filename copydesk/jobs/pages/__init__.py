"""What a page is made of: front matter, prose, code, links; and where the navigation names it."""
