"""The parts of a page: front matter, prose, code and links; and its entries in the navigation."""
