"""Alembic's entry: the connection is handed over by copydesk.core.db.migrate."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True)
context.run_migrations()
