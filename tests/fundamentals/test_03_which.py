"""Which job: ids, unique keys, many at once, children."""

from contracts.jobs import JobPayload
from pipeline import Context, Enqueue, Pipeline, Receipt, Unique, on


async def test_a_given_id_names_one_job_for_ever() -> None:
    """Enqueueing it again is no error and no second job: the receipt says that it was there, and how it stands."""
    runs = []

    class Import(JobPayload, type="lesson:import", queue="default"):
        pass

    async def run(job: Import, ctx: Context) -> None:
        runs.append(ctx.id)

    async with Pipeline.open() as pipeline:
        first = await pipeline.enqueue(Import(), id="import-2024-05")
        async with pipeline.workers(pools=["core"], handlers=[on(Import, run)]):
            await pipeline.wait(first.id, timeout=30)
        again = await pipeline.enqueue(Import(), id="import-2024-05")

    assert again == Receipt("import-2024-05", first.state.COMPLETED, duplicate=True)
    assert runs == ["import-2024-05"]


async def test_a_unique_key_lets_one_job_at_a_time_stand_for_many() -> None:
    """While a job with this key has not ended, a newcomer is dropped. Afterwards the key is free again."""

    class Reindex(JobPayload, type="lesson:reindex", queue="default"):
        pass

    async def reindex(job: Reindex, ctx: Context) -> None: ...

    async with Pipeline.open() as pipeline:
        first = await pipeline.enqueue(Reindex(), unique=Unique("base-7"))
        second = await pipeline.enqueue(Reindex(), unique=Unique("base-7"))
        assert (second.id, second.duplicate) == (first.id, True)
        async with pipeline.workers(pools=["core"], handlers=[on(Reindex, reindex)]):
            await pipeline.wait(first.id, timeout=30)
        third = await pipeline.enqueue(Reindex(), unique=Unique("base-7"))

    assert not third.duplicate


async def test_debounce_moves_the_waiting_job_instead_of_adding_one() -> None:
    """A burst of changes becomes one run, some time after the last of them."""

    class Rebuild(JobPayload, type="lesson:rebuild", queue="default"):
        pass

    quiet = Unique("wiki-7", on_conflict="debounce")
    async with Pipeline.open() as pipeline:
        first = await pipeline.enqueue(Rebuild(), delay=20, unique=quiet)
        before = await pipeline.inspector.job(first.id)
        second = await pipeline.enqueue(Rebuild(), delay=40, unique=quiet)
        after = await pipeline.inspector.job(first.id)

    assert second.id == first.id
    assert after.due_at - before.due_at >= 20_000


async def test_many_are_enqueued_together_each_with_its_own_options() -> None:
    """`enqueue_many` takes payloads, and `Enqueue(payload, …)` where one needs options. Receipts come in that order."""
    seen = set()

    class Page(JobPayload, type="lesson:page", queue="default"):
        number: int

    async def read(job: Page, ctx: Context) -> None:
        seen.add((job.number, ctx.max_retry))

    async with Pipeline.open() as pipeline:
        receipts = await pipeline.enqueue_many([Page(number=1), Enqueue(Page(number=2), max_retry=0)])
        async with pipeline.workers(pools=["core"], handlers=[on(Page, read)]):
            for receipt in receipts:
                await pipeline.wait(receipt.id, timeout=30)

    assert seen == {(1, 25), (2, 0)}


async def test_a_handler_enqueues_children_through_its_context() -> None:
    """They know their parent, and what is told to stop with it."""
    parents = []

    class Book(JobPayload, type="lesson:book", queue="default"):
        pass

    class Chapter(JobPayload, type="lesson:chapter", queue="default"):
        number: int

    async def book(job: Book, ctx: Context) -> None:
        for number in range(3):
            child = await ctx.pipeline.enqueue(Chapter(number=number))
            children.append(child)

    async def chapter(job: Chapter, ctx: Context) -> None:
        parents.append(ctx.job.parent_id)

    children: list[Receipt] = []
    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Book())
        handlers = [on(Book, book), on(Chapter, chapter)]
        async with pipeline.workers(pools=["core"], handlers=handlers):
            await pipeline.wait(receipt.id, timeout=30)
            for child in children:
                await pipeline.wait(child.id, timeout=30)

    assert parents == [receipt.id] * 3
