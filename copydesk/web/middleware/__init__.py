"""What happens to a request before routing: keys, fast path, metrics."""
