"""Who asks, as far as the service knows."""

from dataclasses import dataclass
from typing import Final

from contracts.jobs import Scope
from pipeline.records import JobRecord

ADMIN: Final = "system_admin"
PLATFORM_KEY: Final = "platform_api_key"
TENANT_KEY: Final = "tenant_api_key"
COMMAND_LINE: Final = "command_line"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `tenant_id` None: the whole platform. `csrf` goes with every change a person makes: as the header
    X-CSRF-Token or the form field csrf_token.
    """

    id: str
    name: str
    role: str
    capabilities: frozenset[str]
    tenant_id: int | None = None
    csrf: str = ""

    @property
    def scope(self) -> Scope | None:
        """What they are confined to."""
        return None if self.tenant_id is None else Scope("tenant", str(self.tenant_id))

    def sees(self, record: JobRecord) -> bool:
        """Whether a job is theirs to see."""
        return self.scope is None or self.scope in record.job.scopes
