"""The site that a page belongs to: its generator, navigation files and anchors, and the resolution of links."""
