"""Evaluates models on documentation jobs:  cases ▶ prepare ▶ run ▶ score ▶ report."""
