"""`streamlane demo`: the main job on documents that ship with the package."""

import time
from typing import Final

from rich.markup import escape

from consumers.commands.ask import print_answer
from consumers.commands.ingest import bring_in
from consumers.commands.report import report
from consumers.commands.session import TENANT, session
from consumers.commands.terminal import FAILED, OK, out
from consumers.demo import DOCUMENTS, QUESTION, TAGS
from consumers.knowledge.answers.asking import answer
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.bases.tags import ensure_tags
from contracts.knowledge import ParseStatus

BASE: Final = "streamlane-demo"
LIMIT_S: Final = 300


async def demo() -> int:
    """Run the main job once; return the exit code."""
    begun = time.monotonic()
    async with session(work=True) as opened:
        services = opened.services
        async with services.database.transaction() as sql:
            settings = KnowledgeBaseSettings(auto_tag=True, wiki=True)
            kb = await ensure_base(sql, TENANT, BASE, settings.model_dump())
            await ensure_tags(sql, kb.id, TAGS)
        outcomes = await bring_in(opened, BASE, [DOCUMENTS], wait=True, limit=LIMIT_S, quiet=False)
        report(BASE, outcomes, time.monotonic() - begun, as_json=False)
        out.print(f"\n[bold]{escape(QUESTION)}[/bold]")
        said = await answer(services, kb, QUESTION)
        print_answer(said)
    where = services.settings.data_dir.absolute()
    what = "What was read lies" if services.settings.redis_url else "Everything lies"
    out.print(f"\n{what} in {escape(str(where))}: delete the folder and it is gone. Try next:")
    for line in (
        f'uv run streamlane ask "进程被杀死后任务会丢失吗？" --kb {BASE}',
        f'uv run streamlane search "повторы" --kb {BASE}',
        f"uv run streamlane wiki show --kb {BASE}",
        "uv run streamlane ingest PATH --kb mine",
        "uv run streamlane queues",
    ):
        out.print(f"  {escape(line)}")
    done = all(outcome.fate.status is ParseStatus.COMPLETED for outcome in outcomes) and said.citations
    return OK if done else FAILED
