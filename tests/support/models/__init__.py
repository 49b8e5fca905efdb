"""How language models speak: four wire formats, each held to its provider's own typed description."""
