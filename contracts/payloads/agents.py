"""Agent runs, under their own ceiling of simultaneous model calls."""

from contracts.jobs import JobPayload


class AgentRun(JobPayload, type="agent:run", queue="agent", max_retry=2, timeout=1800):
    """Let an agent answer one message of a session."""

    tenant_id: int
    agent_id: str
    session_id: str
    message_id: str
    language: str | None = None
