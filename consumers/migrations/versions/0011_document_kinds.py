"""How a document came in, and its content found within its base."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("knowledges", sa.Column("kind", sa.String(16), nullable=False, server_default="file"))
    op.create_index("knowledges_content", "knowledges", ["knowledge_base_id", "file_hash"])


def downgrade() -> None:
    op.drop_index("knowledges_content", "knowledges")
    op.drop_column("knowledges", "kind")
