"""The main database: transactions, schema, migrations and notifications, on SQLite or PostgreSQL."""
