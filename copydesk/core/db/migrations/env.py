"""Alembic's entry: the connection is handed over by copydesk.core.db.migrate."""

from alembic import context

from copydesk.core.db.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)  # its names of constraints
context.run_migrations()
