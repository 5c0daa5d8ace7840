"""An id of its own for each database, by which the store knows where the documents of its jobs lie."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    made = op.create_table("database_identity", sa.Column("id", sa.String(32), primary_key=True))
    op.bulk_insert(made, [{"id": uuid.uuid4().hex}])


def downgrade() -> None:
    op.drop_table("database_identity")
