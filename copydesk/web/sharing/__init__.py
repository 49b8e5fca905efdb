"""What people see without a session: shared analytics, badges, and the page that ends a subscription."""
