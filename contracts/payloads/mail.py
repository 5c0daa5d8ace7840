"""Mail: transactional messages and campaigns, which never delay each other."""

from contracts.jobs import JobPayload


class EmailInvite(JobPayload, type="email:invite", queue="email", max_retry=8, timeout=60):
    """Invite a person to a workspace."""

    tenant_id: int
    recipient: str
    workspace: str
    link: str
    invited_by: str = ""
    language: str | None = None


class EmailReset(JobPayload, type="email:reset", queue="email", max_retry=8, timeout=60):
    """Send a link that resets a password; useless after `expires_at` (ms since the epoch)."""

    tenant_id: int
    recipient: str
    link: str
    expires_at: int
    language: str | None = None


class EmailCampaign(JobPayload, type="email:campaign", queue="email_bulk", max_retry=5, timeout=3600):
    """Start a campaign: one batch job for each slice of its recipients."""

    tenant_id: int
    campaign_id: str


class EmailCampaignBatch(
    JobPayload, type="email:campaign_batch", queue="email_bulk", max_retry=8, timeout=1800
):
    """Send a campaign to one slice of its recipients."""

    tenant_id: int
    campaign_id: str
    batch_index: int
    recipient_ids: tuple[str, ...]
