"""How well a model does documentation jobs:  cases ▶ prepare ▶ run ▶ score ▶ report."""
