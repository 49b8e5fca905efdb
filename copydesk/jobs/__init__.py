"""A prompt becomes a pull request:  create ▶ queue ▶ agent ▶ check ▶ publish.  A job that ends always says why."""
