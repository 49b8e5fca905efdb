"""Mail: an outbox in the database, and the SMTP server that takes its mails."""
