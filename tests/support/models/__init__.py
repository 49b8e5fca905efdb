"""Four wire formats of language models, each checked against its provider's typed description."""
