"""What a person who waits need not wait for: the time in which more of a burst might come, when all of it has come."""

from typing import Final

from contracts.jobs import Scope, payload_types
from contracts.payloads.wiki import WikiFinalize, WikiIngest
from contracts.states import JobState
from pipeline import Pipeline
from pipeline.actions import Action
from pipeline.records import TaskFilter

_NOT_WIKI: Final = frozenset(payload_types()) - {WikiIngest.spec.type, WikiFinalize.spec.type}


async def hurry_wiki(pipeline: Pipeline, kb_id: str) -> None:
    """Let the wiki of a base be written at once, and then finished, if nothing else of the base is queued."""
    if not await pipeline.inspector.has_queued("knowledge_base", kb_id, _NOT_WIKI):
        await wake_wiki(pipeline, kb_id)


async def wake_wiki(pipeline: Pipeline, kb_id: str) -> None:
    """Let what the wiki of a base waits for come at once: its pages, or when they are written, its end."""
    inspector, scope = pipeline.inspector, Scope("knowledge_base", kb_id)
    writing = await inspector.has_queued(scope.kind, scope.id, {WikiIngest.spec.type})
    spec = (WikiIngest if writing else WikiFinalize).spec
    await inspector.bulk(Action.RUN_NOW, spec.queue, JobState.SCHEDULED, TaskFilter(spec.type, scope))
