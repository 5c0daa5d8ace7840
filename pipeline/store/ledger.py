"""Dead letters in SQL: one row a death, however often it is told."""

import json
from collections.abc import Sequence
from typing import Any, Final

from contracts.wire import cut
from pipeline.broker import DeadLetter
from pipeline.store.engine import Database
from pipeline.store.rows import insert_new
from pipeline.store.tables import task_dead_letters

SCOPES: Final = (
    ("knowledge_base_id", "knowledge_base"),
    ("kb_id", "knowledge_base"),
    ("source_kb_id", "knowledge_base"),
    ("knowledge_id", "knowledge"),
)
"""Payload fields that say what a dead job was about; the first that is filled wins (facts 4.1)."""
MOST: Final = 10**9
"""Failures counted, whatever a poisoned record says: the column holds twice as many."""


class SqlLedger:
    """Implements `pipeline.ledger.Ledger`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record_deaths(self, letters: Sequence[DeadLetter]) -> None:
        """Write one row a death, however often it is told. Raises StoreUnavailable."""
        if letters:
            rows = sorted(map(letter_row, letters), key=lambda row: row["death_id"])
            async with self._database.transaction() as session:
                await insert_new(session, task_dead_letters, rows)


def letter_row(letter: DeadLetter) -> dict[str, Any]:
    """Return the row of a death. The record may be poison: whatever cannot be read is left empty."""
    data, options_text = (_storable(letter.record.get(name, "")) for name in ("data", "opts"))
    fields, options = _object(data), _object(options_text)
    scope, scope_id = next(
        ((kind, _text(fields.get(field))) for field, kind in SCOPES if _text(fields.get(field))), ("", "")
    )
    tenant = fields.get("tenant_id")
    tenant = tenant if type(tenant) is int and 0 < tenant < 2**63 else 0
    if not scope:
        scope, scope_id = ("tenant", str(tenant)) if tenant else ("unknown", "")
    retried = options.get("retried", 0)
    return {
        "death_id": letter.death_id,
        "tenant_id": tenant,
        "task_type": _storable(letter.record.get("type", ""))[:64],
        "scope": scope,
        "scope_id": scope_id,
        "related_id": _text(fields.get("knowledge_id")),
        "reason": letter.reason,
        "queue": letter.queue,
        "payload": data or "{}",
        "options": options_text or "{}",
        "last_error": cut(letter.error),
        "fail_count": min(max(retried, 0), MOST) + 1 if isinstance(retried, int) else 1,
        "failed_at": letter.died_at,
    }


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return _storable(value)[:128] if isinstance(value, str) else ""


def _storable(text: str) -> str:
    """Return `text` without what a database has no place for: NUL, and halves of characters."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
