"""Jobs turn a prompt into a pull request: create ▶ queue ▶ agent ▶ check ▶ publish.

A job that fails or changes nothing records the reason.
"""
