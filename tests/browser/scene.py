"""A live system with something of everything: jobs that run, fail, wait and have died, and documents that were read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from consumers.api import api_of, listening
from consumers.commands.ingest import bring_in
from consumers.commands.session import Session
from consumers.lanes import handlers_of
from consumers.services import Services, open_services
from contracts.jobs import Unique
from contracts.outcomes import Retry, Skip, Snooze
from contracts.payloads.agents import AgentRun
from contracts.payloads.mail import EmailInvite
from contracts.payloads.maintenance import DataSourceSync, KnowledgeBaseDelete
from pipeline import Context, Pipeline, on
from pipeline.client import Enqueue
from pipeline.store import people

from tests.support.waiting import wait_until

NAME, PASSWORD = "anna", "correct horse battery"
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>\x1b[31m\u202egnp.exe"
POOLS = ("core", "postprocess", "enrichment", "agents")


@dataclass
class Scene:
    """Where it is served, and what can be done to it from behind."""

    address: str
    pipeline: Pipeline
    services: Services
    ids: dict[str, str] = field(default_factory=dict)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


def agent(scene: Scene) -> Callable[[AgentRun, Context], Awaitable[None]]:
    """A handler that does what the id of its agent says."""

    async def run(job: AgentRun, ctx: Context) -> None:
        match job.agent_id:
            case "holds":
                await ctx.progress(3, 8, "reading the tickets")
                await scene.go_on.wait()
            case "hostile":
                raise Skip(HOSTILE)
            case "skips":
                raise Skip("the session was deleted by its owner")
            case "fails":
                raise Retry(3600, "the model answered 503: overloaded, try again later")
            case "breaks":
                raise RuntimeError(f"cannot reach the tool server for message {job.message_id}")
            case "snoozes":
                raise Snooze(1800)
            case _:
                return

    return run


def run(agent_id: str, number: int = 0, tenant: int = 7) -> AgentRun:
    return AgentRun(
        tenant_id=tenant, agent_id=agent_id, session_id=f"s-{number}", message_id=f"{agent_id}-{number}"
    )


@asynccontextmanager
async def playing(folder: Path, port: int = 0, *, documents: Sequence[Path] = ()) -> AsyncIterator[Scene]:
    """Play the scene on Lite, with workers in this process; `documents` are read to their end first."""
    async with (
        Pipeline.open(data_dir=folder, redis_url=None, pool_agents_concurrency=3) as pipeline,
        open_services(pipeline) as services,
    ):
        kept = await asyncio.to_thread(people.hashed, PASSWORD)
        async with services.database.transaction() as sql:
            await people.add(sql, NAME, kept)
        async with listening(api_of(pipeline, services.database), "127.0.0.1", port) as address:
            scene = Scene(address, pipeline, services)
            handlers = [*handlers_of(POOLS), on(AgentRun, agent(scene))]
            ours = {handler.payload.spec.type for handler in handlers}
            async with pipeline.workers(
                pools=POOLS, handlers=handlers, services=services, only=ours, duties=services.duties
            ):
                if documents:
                    opened = Session(pipeline, services)
                    await bring_in(opened, "handbook", documents, wait=True, limit=60, quiet=True)
                await _fill(scene)
                yield scene
                scene.go_on.set()


async def _fill(scene: Scene) -> None:
    enqueue = scene.pipeline.enqueue
    for kind in ("hostile", "skips", "fails", "snoozes"):
        scene.ids[kind] = (await enqueue(run(kind))).id
    scene.ids["breaks"] = (await enqueue(run("breaks"), max_retry=0)).id
    await scene.pipeline.enqueue_many([Enqueue(run("works", n, tenant=n % 3 + 1)) for n in range(40)])
    await wait_until(lambda: _died(scene, 3), describe="three have died and forty are done")
    holding = [await enqueue(run("holds", n)) for n in range(3)]
    scene.ids["holds"] = holding[0].id
    await wait_until(lambda: _active(scene, 3), describe="three run")
    await wait_until(lambda: _told(scene, 3), describe="the worker has told that three run", timeout=20)
    waiting = [await enqueue(run("works", n, tenant=n % 3 + 1)) for n in range(100, 160)]
    scene.ids["waits"] = waiting[-1].id
    for n in range(12):  # nobody reads the interactive pool
        mail = EmailInvite(
            tenant_id=7, recipient=f"p{n}@example.com", workspace="Ops", link="https://example.com/i"
        )
        scene.ids["lonely"] = (await enqueue(mail)).id
    sync = DataSourceSync(data_source_id="ds-9", tenant_id=7, sync_log_id="log-1")
    scene.ids["later"] = (await enqueue(sync, delay=5400, unique=Unique("ds-9", on_conflict="debounce"))).id
    await enqueue(KnowledgeBaseDelete(tenant_id=7, knowledge_base_id="kb-3"))
    await scene.pipeline.inspector.pause("low")


async def _died(scene: Scene, least: int) -> bool:
    stats = {stat.name: stat for stat in await scene.pipeline.inspector.queues()}
    agent = stats["agent"]
    return agent.archived >= least and agent.processed >= 40 and not agent.pending


async def _active(scene: Scene, least: int) -> bool:
    return any(s.name == "agent" and s.active >= least for s in await scene.pipeline.inspector.queues())


async def _told(scene: Scene, busy: int) -> bool:
    workers = await scene.pipeline.inspector.workers()
    return any(pool.name == "agents" and pool.active >= busy for one in workers for pool in one.pools)
