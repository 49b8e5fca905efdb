"""Changes of the structure of a site: pages that move or go, and entries of its navigation."""
