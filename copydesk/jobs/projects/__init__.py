"""Creates projects and checks the options that depend on models and checks."""
