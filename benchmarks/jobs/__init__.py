"""What a job costs, in one run:  creation ▶ edits ▶ the plain way ▶ engines ▶ footprint ▶ report."""
