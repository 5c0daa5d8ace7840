"""What a key may be good for."""

from enum import StrEnum


class Capability(StrEnum):
    """One thing that a key lets its bearer do."""

    SYSTEM_RUNTIME_READ = "system_runtime_read"
    SYSTEM_RUNTIME_MANAGE = "system_runtime_manage"
    SYSTEM_AUDIT_READ = "system_audit_read"
    SYSTEM_TENANTS_MANAGE = "system_tenants_manage"
    KNOWLEDGE_READ = "knowledge_read"
    KNOWLEDGE_WRITE = "knowledge_write"
    AGENT_READ = "agent_read"
    AGENT_RUN = "agent_run"
