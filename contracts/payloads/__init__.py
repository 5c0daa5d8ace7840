"""Every job type of the platform, one module a family. Importing this package registers them all."""

from typing import Final

from contracts.jobs import payload_types
from contracts.payloads import (
    agents,
    bots,
    documents,
    enrichment,
    knowledge,
    mail,
    maintenance,
    memory,
    notify,
    wiki,
)

__all__ = [
    "agents",
    "bots",
    "documents",
    "enrichment",
    "knowledge",
    "mail",
    "maintenance",
    "memory",
    "notify",
    "wiki",
]

AWAITING_HANDLER: Final = frozenset(
    {
        "agent:run",
        "bot:mattermost",
        "bot:slack",
        "bot:telegram",
        "email:campaign",
        "email:campaign_batch",
        "email:invite",
        "email:reset",
        "notify:email",
        "notify:webhook",
    }
)
"""Types that have no handler yet. This list only shrinks."""


def handled() -> frozenset[str]:
    """Return the types that the workers of this package handle."""
    return frozenset(payload_types()) - AWAITING_HANDLER
