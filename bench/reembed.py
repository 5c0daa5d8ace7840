"""A base embedded anew while somebody searches it, all in one process: how long answers take beside the work, and without it."""

import argparse
import asyncio
import os
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from consumers.knowledge.answers.asking import look
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.embedding.hashing import HashingEmbedder
from consumers.knowledge.long_work import tasks
from consumers.knowledge.search.sides import hold
from consumers.knowledge.search.store import EntryKind, IndexEntry
from consumers.knowledge.upkeep import reembedding
from consumers.ks import HANDLERS
from consumers.services import Services, open_services
from contracts.payloads import AWAITING_HANDLER
from contracts.tasks import TASK_OPEN
from pipeline import Pipeline

BATCH: Final = 500
WORDS: Final = [
    f"{first}{last}"
    for first in ("riv", "mount", "val", "for", "mead")
    for last in ("er", "ain", "ley", "est", "ow", "ing", "ed", "al")
]


def main(arguments: list[str]) -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="reembed")
    options.add_argument("--chunks", type=int, default=20_000)
    options.add_argument("--searches", type=int, default=300)
    options.add_argument("--model", default=HashingEmbedder.MODEL)
    options.add_argument("--dimension", type=int, default=384)
    asyncio.run(_measure(options.parse_args(arguments)))


async def _measure(asked: argparse.Namespace) -> None:
    with TemporaryDirectory() as folder:
        settings: dict[str, Any] = {
            "data_dir": Path(folder),
            "embedding_model": HashingEmbedder.MODEL,
            "embedding_dimension": 512,
        }
        async with Pipeline.open(**settings) as pipeline, open_services(pipeline) as services:
            kb_id = await _filled(services, asked.chunks)
            await _searches(services, kb_id, 20)
            alone = await _searches(services, kb_id, asked.searches)
            async with pipeline.workers(
                pools=("ks",), handlers=HANDLERS, services=services, awaiting=AWAITING_HANDLER
            ):
                async with services.outbox.transaction() as sql:
                    task_id = await reembedding.ask_for(
                        sql, services.embedders, kb_id, asked.model, asked.dimension
                    )
                begun, beside = time.perf_counter(), []
                while await _open(services, task_id):
                    beside += await _searches(services, kb_id, 10)
                took = time.perf_counter() - begun
    print(
        f"  {asked.chunks:,} vectors to {asked.model} ({asked.dimension}): {took:.1f} s, {asked.chunks / took:,.0f}/s"
    )
    for name, times in (("alone", alone), ("beside it", beside)):
        print(
            f"  search {name}: p50 {_rank(times, 0.5):.1f} ms, p95 {_rank(times, 0.95):.1f} ms, {len(times)} answers"
        )
    ratio = _rank(beside, 0.95) / _rank(alone, 0.95)
    print(f"  p95 beside it: {ratio:.2f} times that alone (budget 2); load {os.getloadavg()[0]:.2f}")


async def _filled(services: Services, chunks: int) -> str:
    chance = random.Random(7)
    async with services.database.transaction() as sql:
        kb = await ensure_base(sql, 1, "bench")
    side = await services.side(kb.id)
    for start in range(0, chunks, BATCH):
        texts = [" ".join(chance.choices(WORDS, k=60)) + f" number {n}" for n in range(start, start + BATCH)]
        vectors = await side.embedder.embed(texts)
        entries = [
            IndexEntry(
                id=f"c{start + at}", kb_id=kb.id, knowledge_id=f"d{(start + at) // 50}", attempt=1, kind=EntryKind.TEXT,
                text=text, chunk_id=f"c{start + at}", position=at % 50, vector=vector, model=side.model,
            )
            for at, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]  # fmt: skip
        async with services.database.transaction() as sql:
            await hold(sql, side)
            await services.search.put(sql, entries)
    return kb.id


async def _searches(services: Services, kb_id: str, count: int) -> list[float]:
    """The milliseconds of each; every answer is of one whole index."""
    chance, times = random.Random(count), []
    for _ in range(count):
        begun = time.perf_counter()
        found = await look(services, kb_id, " ".join(chance.choices(WORDS, k=4)), limit=10)
        times.append(1000 * (time.perf_counter() - begun))
        if found.notice:
            raise RuntimeError(found.notice)
    return times


async def _open(services: Services, task_id: str) -> bool:
    async with services.database.read() as sql:
        task = await tasks.find(sql, None, task_id)
    return task is not None and task.status in TASK_OPEN


def _rank(times: list[float], share: float) -> float:
    return sorted(times)[int(share * (len(times) - 1))]
