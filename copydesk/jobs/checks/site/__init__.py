"""The site that a page belongs to: its generator, navigation files, anchors and how links resolve."""
