"""Heavy work on the knowledge store itself; search stays fast meanwhile."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from contracts.jobs import JobPayload


class StoreReembed(JobPayload, type="ks:reembed", queue="ks", max_retry=3, timeout=21600):
    """Embed a knowledge base with another model beside the old index, then swap."""

    tenant_id: int
    knowledge_base_id: str
    task_id: str
    model: str
    dimension: int


class StoreCurate(JobPayload, type="ks:curate", queue="ks", max_retry=3, timeout=7200):
    """Merge aliases and duplicates of the graph, drop orphans, report."""

    tenant_id: int
    knowledge_base_id: str
    task_id: str
    action: Literal["merge", "prune", "all"] = "all"
    dry_run: bool = False


class StoreRestore(JobPayload, type="ks:restore", queue="ks", max_retry=3, timeout=21600):
    """Make a knowledge base anew, of this id, from an archive in the file store."""

    tenant_id: int
    knowledge_base_id: str
    task_id: str
    file_key: str
    name: str | None = None


class StoreBackup(JobPayload, type="ks:backup", queue="ks", max_retry=3, timeout=21600):
    """Write a consistent archive of a knowledge base with its checksum. The id of the backup is that of its task, too."""

    scope_fields: ClassVar[Mapping[str, str]] = {"backup_id": "task"}
    tenant_id: int
    knowledge_base_id: str
    backup_id: str
