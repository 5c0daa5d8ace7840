"""Run by Alembic; the connection comes from `migrate`."""

from alembic import context

from consumers.migrations.schema import TARGETS, ours

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=TARGETS,
    include_name=ours,
    transactional_ddl=True,  # SQLite can, and a killed upgrade then leaves nothing behind
)
with context.begin_transaction():
    context.run_migrations()
