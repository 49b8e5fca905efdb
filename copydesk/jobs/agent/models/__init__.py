"""Language models: names, providers, messages, errors and cost."""
