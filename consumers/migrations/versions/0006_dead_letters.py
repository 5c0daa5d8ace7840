"""Where a dead job stood and what it was asked with, to replay it as it was."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLE = "task_dead_letters"


def upgrade() -> None:
    op.add_column(TABLE, sa.Column("queue", sa.String(64), nullable=False, server_default=""))
    op.add_column(TABLE, sa.Column("options", sa.Text(), nullable=False, server_default="{}"))
    op.create_index("task_dead_letters_age", TABLE, ["failed_at"])


def downgrade() -> None:
    op.drop_index("task_dead_letters_age", TABLE)
    op.drop_column(TABLE, "options")
    op.drop_column(TABLE, "queue")
