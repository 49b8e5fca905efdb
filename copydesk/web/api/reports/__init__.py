"""Reports: their parameters, responses and schemas, and the routes of lists whose rows are stored one by one."""
