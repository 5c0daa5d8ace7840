"""Notifications that leave the platform."""

from contracts.jobs import JobPayload


class NotifyEmail(JobPayload, type="notify:email", queue="notify", max_retry=8, timeout=60):
    """Deliver one notification by mail."""

    tenant_id: int
    notification_id: str
    recipient: str
    language: str | None = None


class NotifyWebhook(JobPayload, type="notify:webhook", queue="notify", max_retry=10, timeout=30):
    """Post one signed notification to a tenant's address; the same id and body at each try."""

    tenant_id: int
    notification_id: str
    endpoint_id: str
