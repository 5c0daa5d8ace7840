"""Messages from chat platforms, one job each, deduplicated by the platform's own id."""

from contracts.jobs import JobPayload


class BotMessage(JobPayload):
    """What every incoming message carries. `event_id` is the platform's id of it."""

    tenant_id: int
    bot_id: str
    event_id: str
    channel_id: str
    user_id: str
    text: str
    received_at: int


class SlackMessage(BotMessage, type="bot:slack", queue="bot_slack", max_retry=3, timeout=120):
    """Answer a direct message from Slack in its thread."""

    thread_ts: str


class TelegramMessage(BotMessage, type="bot:telegram", queue="bot_telegram", max_retry=3, timeout=120):
    """Answer a direct message from Telegram."""

    message_id: int


class MattermostMessage(BotMessage, type="bot:mattermost", queue="bot_mattermost", max_retry=3, timeout=120):
    """Answer a direct post from Mattermost in its thread."""

    root_id: str
