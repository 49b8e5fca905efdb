"""The tables of jobs, and the statements that read and write them."""
