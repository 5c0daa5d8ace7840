"""What people and programs do to documents: done, and written down. The API and the dashboard both come through here."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from contracts.knowledge import DocumentVerb
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.documents import Deed, Documents, Done
from pipeline.http.errors import Problem
from pipeline.store.audit import Outcome

DEEDS: Final[Mapping[DocumentVerb, str]] = {
    DocumentVerb.CANCEL: "knowledge.parse_canceled",
    DocumentVerb.REPARSE: "knowledge.reparsed",
    DocumentVerb.DELETE: "knowledge.deleted",
}
AT_ONCE: Final = 200
"""Documents of one request at most (facts 1.16)."""


def keeper_of(call: Call) -> Documents:
    """Return who keeps documents. Raises Problem 503."""
    if call.desk.documents is None:
        raise Problem(503, "this process keeps no documents", "documents_unavailable")
    return call.desk.documents


async def act(call: Call, verb: DocumentVerb, ids: Sequence[str], *, fresh: bool = False) -> list[Done]:
    """Do something to each of these documents; return what became of each. Raises Problem, StoreUnavailable."""
    keeper, who, named = keeper_of(call), call.who, list(dict.fromkeys(ids))
    if len(named) > AT_ONCE:
        raise Problem(400, f"name at most {AT_ONCE} documents, not {len(named)}", "too_many")
    deed = Deed(verb, who.id, who.role, who.tenant_id, fresh)
    target = ("knowledge", named[0] if len(named) == 1 else "")
    about = {"knowledge_ids": " ".join(named)} if len(named) != 1 else {}
    async with recorded(call, DEEDS[verb], target, **about) as entry:
        done = await keeper.act(deed, named)
        entry.details |= {effect.value: str(n) for effect, n in Counter(one.effect for one in done).items()}
        if not all(one.delivered for one in done):
            entry.details["delivery"] = "pending"
        entry.outcome = _outcome(verb, done)
    return done


def _outcome(verb: DocumentVerb, done: Sequence[Done]) -> Outcome:
    if not any(one.ok for one in done):
        return Outcome.DENIED
    if not all(one.ok for one in done):
        return Outcome.PARTIAL
    return Outcome.CANCELED if verb is DocumentVerb.CANCEL else Outcome.SUCCESS
