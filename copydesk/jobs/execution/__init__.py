"""Durable execution: the queue, leases, the journal of steps, and the worker."""
