"""Popular pages whose sources changed: for the runs of automations, and as a report for people."""
