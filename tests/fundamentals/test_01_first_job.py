"""A job: what it is about is a class, what happens is a function."""

import subprocess
import sys
from pathlib import Path

from contracts.jobs import JobPayload
from pipeline import Context, Pipeline, on


async def test_a_job_is_enqueued_handled_and_waited_for() -> None:
    """A payload class names the job type and its queue. Its handler gets the payload. Returning means done."""
    greeted = []

    class Greet(JobPayload, type="lesson:greet", queue="default"):
        name: str

    async def greet(job: Greet, ctx: Context) -> None:
        greeted.append(f"hello {job.name}")

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Greet(name="Ann"))
        async with pipeline.workers(pools=["core"], handlers=[on(Greet, greet)]):
            await pipeline.wait(receipt.id, timeout=30)

    assert greeted == ["hello Ann"]


async def test_a_plain_function_is_a_handler_too() -> None:
    """`async def` runs on the event loop, `def` in a thread beside it: for what waits without awaiting."""
    greeted = []

    class Greet(JobPayload, type="lesson:greet", queue="default"):
        name: str

    def greet(job: Greet, ctx: Context) -> None:
        greeted.append(f"hello {job.name}")

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Greet(name="Ann"))
        async with pipeline.workers(pools=["core"], handlers=[on(Greet, greet)]):
            await pipeline.wait(receipt.id, timeout=30)

    assert greeted == ["hello Ann"]


async def test_what_was_enqueued_outlives_the_process() -> None:
    """`enqueue` returns when the job is durable. Whoever opens the same data folder next finds it."""
    greeted = []

    class Greet(JobPayload, type="lesson:greet", queue="default"):
        name: str

    async def greet(job: Greet, ctx: Context) -> None:
        greeted.append(job.name)

    async with Pipeline.open() as yesterday:
        receipt = await yesterday.enqueue(Greet(name="Ann"))

    async with (
        Pipeline.open() as today,
        today.workers(pools=["core"], handlers=[on(Greet, greet)]),
    ):
        await today.wait(receipt.id, timeout=30)

    assert greeted == ["Ann"]


def test_the_ten_lines_of_the_readme_run_as_they_stand(tmp_path: Path) -> None:
    """The README shows how a job type is added in ten lines; here they are run, word by word."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    lines = readme.partition("ten lines")[2].partition("```python\n")[2].partition("```")[0]
    job_type = lines.partition("async def main")[0]
    assert 0 < len([line for line in job_type.splitlines() if line]) <= 10
    program = tmp_path / "resize.py"
    program.write_text(lines)
    ran = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "resizing i1, attempt 1\n"), ran.stderr
