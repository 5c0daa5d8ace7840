"""Notes of files that are stored, and the way from an original to its documents."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "file_notes",
        sa.Column("key", sa.String(1700), primary_key=True),
        sa.Column("noted_at", sa.BigInteger(), nullable=False),
    )
    op.create_index("file_notes_age", "file_notes", ["noted_at"])
    op.create_index("knowledges_file", "knowledges", ["file_key"])


def downgrade() -> None:
    op.drop_index("knowledges_file", "knowledges")
    op.drop_table("file_notes")
