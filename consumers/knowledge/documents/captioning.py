"""Captions of pictures: made once, kept, and done without where the model does not answer."""

from dataclasses import dataclass

from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.embedding.embedder import ModelUnavailable, TextRefused
from consumers.knowledge.embedding.endpoint import EndpointAway, EndpointBusy
from consumers.knowledge.reading.ocr import UnreadablePicture
from consumers.knowledge.reading.pictures import identify
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.vision import VisionModel, sendable
from consumers.services import Services
from contracts.outcomes import Retry
from contracts.payloads.documents import ImageMultimodal

NONE = "no caption: {}"


@dataclass(frozen=True, slots=True)
class Caption:
    """What a picture shows; a `reason` says why there is none where one was wanted."""

    text: str = ""
    reason: str = ""


async def caption(job: ImageMultimodal, services: Services, *, final: bool) -> Caption:
    """Describe a picture where its base wants that and a model is there. On the `final` attempt no fault of the model is an
    error: the picture goes without. Raises Retry, StoreUnavailable, FileStoreError.
    """
    seer = await _seer(job, services)
    if seer is None:
        return Caption()
    stage = job.knowledge_id, "caption", job.image_url, seer.model, job.language or ""
    if (known := await services.stages.recall(*stage)) is not None:
        return Caption(known.decode())
    data = await services.files.read(job.image_url)
    try:
        sent, mime = await sendable(data, identify(data) or "", memory_mb=services.settings.parser_memory_mb)
        text = await seer.describe(sent, mime, job.language)
    except (UnreadablePicture, ModelUnavailable, TextRefused) as problem:
        return Caption(reason=NONE.format(problem))
    except (EndpointBusy, EndpointAway) as problem:
        if final:
            return Caption(reason=NONE.format(problem))
        if isinstance(problem, EndpointAway):  # no outage to wait for: its document would wait, too
            raise Retry(reason=str(problem)) from problem
        raise
    if not text:
        return Caption(reason=NONE.format(f"{seer.model} said nothing"))
    await services.stages.keep(*stage, data=text.encode())
    return Caption(text)


async def _seer(job: ImageMultimodal, services: Services) -> VisionModel | None:
    """The model that describes pictures of a base, as it is set now."""
    if not job.enable_caption:
        return None
    async with services.database.read() as session:
        kb = await session.get(KnowledgeBase, job.knowledge_base_id)
    wants = KnowledgeBaseSettings.model_validate(kb.settings if kb else {})
    return services.vision.model(wants.models.vision) if wants.caption_pictures else None
