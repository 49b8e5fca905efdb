"""Measures the cost of counting visitors exactly."""
