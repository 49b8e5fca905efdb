"""Measures the cost of automations while nothing happens, and of runs that have nothing to do."""
