"""A function in a child process: what comes back, what is killed, and what is left behind (nothing)."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from pipeline.worker.offload import ChildPool, close_children, run_in_child
from pipeline.worker.process import ChildDied, ChildError, ChildOutOfMemory, ChildTimeout

from tests.support.offloaded import (
    add,
    crash,
    fail,
    fail_mutely,
    fail_with_two,
    hoard,
    interrupt_itself,
    leave,
    pid,
    repeat,
    spin,
    spin_with_a_grandchild,
    take_at_once,
    talk,
    unpicklable,
)
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
GUARDED = 'if __name__ == "__main__": asyncio.run(main())'
PROMPT = """
import asyncio; from pipeline.worker.offload import run_in_child
def one(): return 1
asyncio.run(run_in_child(one, timeout=20))
"""


@pytest.fixture
async def pool():
    pool = ChildPool(2)
    yield pool
    await pool.close()


def gone(process: int) -> bool:
    """Whether a process has ended with all its threads: its first one may be a zombie before the others have."""
    with contextlib.suppress(
        ChildProcessError, AttributeError
    ):  # not ours, or taken note of; macOS has no waitid
        return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def start_script(tmp_path: Path, text: str) -> "subprocess.Popen[str]":
    script = tmp_path / "script.py"
    script.write_text(text)
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class TestAnswers:
    async def test_the_result_comes_back(self, pool):
        assert await pool.run(add, 1, 2, timeout=20) == 3

    async def test_it_runs_in_another_process(self, pool):
        assert await pool.run(pid, timeout=20) != os.getpid()

    async def test_a_result_of_many_mebibytes_comes_back_whole(self, pool):
        assert await pool.run(repeat, b"0123456789", 3 << 20, timeout=20) == b"0123456789" * (3 << 20)

    async def test_an_argument_of_many_mebibytes_arrives_whole(self, pool):
        assert await pool.run(len, b"x" * (30 << 20), timeout=20) == 30 << 20

    async def test_an_exception_is_raised_as_itself_with_the_traceback_of_the_child(self, pool):
        with pytest.raises(ValueError, match="no good") as caught:
            await pool.run(fail, ValueError("no good"), timeout=20)
        assert "in fail" in "".join(caught.value.__notes__)

    async def test_an_exception_that_cannot_travel_is_told_by_name_and_text(self, pool):
        with pytest.raises(ChildError, match="one and two") as caught:
            await pool.run(fail_with_two, timeout=20)
        assert caught.value.type_name == "NeedsTwoError"

    async def test_an_exception_without_a_text_is_told_by_name(self, pool):
        with pytest.raises(ChildError) as caught:
            await pool.run(fail_mutely, timeout=20)
        assert caught.value.type_name == "MuteError"

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
    async def test_an_exception_that_would_end_the_caller_becomes_an_error(self, pool, error):
        with pytest.raises(ChildError) as caught:
            await pool.run(fail, error, timeout=20)
        assert caught.value.type_name == type(error).__name__

    async def test_a_result_that_cannot_be_pickled_is_an_error_that_says_so(self, pool):
        with pytest.raises(TypeError, match="the result cannot be sent back"):
            await pool.run(unpicklable, timeout=20)

    async def test_a_function_that_cannot_be_pickled_is_refused_before_anything_starts(self, pool):
        with pytest.raises(TypeError, match="give a function defined at the top of a module"):
            await pool.run(lambda: None, timeout=20)

    async def test_a_child_ignores_the_interrupt_of_the_keyboard(self, pool):
        assert await pool.run(interrupt_itself, timeout=20) == "still here"

    async def test_a_pool_without_children_is_refused(self):
        with pytest.raises(ValueError, match="size of at least 1"):
            ChildPool(0)


class TestLimits:
    async def test_a_c_loop_that_holds_the_gil_is_killed_on_schedule(self, pool, tmp_path):
        await pool.run(pid, timeout=20)
        started = time.monotonic()
        with pytest.raises(ChildTimeout, match="longer than 2 s"):
            await pool.run(spin, tmp_path / "pid", timeout=2)
        assert time.monotonic() - started < 10
        assert gone(int((tmp_path / "pid").read_text()))

    async def test_what_the_child_started_is_killed_with_it(self, pool, tmp_path):
        path = tmp_path / "pid"
        call = asyncio.create_task(pool.run(spin_with_a_grandchild, path, timeout=600))
        await wait_until(
            lambda: path.exists() and path.read_text(), describe="the grandchild runs", timeout=60
        )
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        grandchild = int(path.read_text())
        await wait_until(lambda: gone(grandchild), describe="the grandchild is gone")

    async def test_a_call_that_grows_is_stopped(self, pool):
        with pytest.raises(ChildOutOfMemory, match="more than 200 MiB"):
            await pool.run(hoard, 20_000, timeout=60, memory_mb=200)

    async def test_one_huge_allocation_is_refused(self, pool):
        with pytest.raises(ChildOutOfMemory):
            await pool.run(take_at_once, 8 << 10, timeout=60, memory_mb=200)

    async def test_a_limit_of_one_call_does_not_bind_the_next(self, pool):
        assert await pool.run(hoard, 1, timeout=20, memory_mb=100) == 1
        assert await pool.run(hoard, 400, timeout=20) == 400

    async def test_the_other_calls_of_a_pool_do_not_notice(self, pool):
        neighbour = asyncio.create_task(pool.run(hoard, 50, timeout=20))
        with pytest.raises(ChildTimeout):
            await pool.run(spin, timeout=0.3)
        assert await neighbour == 50

    async def test_a_child_that_exits_is_told_by_its_code(self, pool):
        with pytest.raises(ChildDied, match="exited with code 7") as caught:
            await pool.run(leave, 7, timeout=20)
        assert (caught.value.code, caught.value.signal) == (7, None)

    async def test_a_child_that_crashes_is_told_by_the_signal_and_where_it_was(self, pool):
        with pytest.raises(ChildDied, match="signal 11") as caught:
            await pool.run(crash, timeout=20)
        assert caught.value.signal == signal.SIGSEGV
        assert "in crash" in caught.value.stderr

    async def test_a_pool_works_on_after_each_of_them(self, pool):
        for broken in (
            pool.run(spin, timeout=0.2),
            pool.run(leave, 1, timeout=20),
            pool.run(crash, timeout=20),
        ):
            with pytest.raises((ChildTimeout, ChildDied)):
                await broken
            assert await pool.run(add, 1, 2, timeout=20) == 3


class TestReuse:
    async def test_a_child_is_kept_warm_for_the_next_call(self, pool):
        assert await pool.run(pid, timeout=20) == await pool.run(pid, timeout=20)

    async def test_no_more_children_run_than_the_size_of_the_pool(self, pool):
        pids = await asyncio.gather(*(pool.run(pid, timeout=20) for _ in range(10)))
        assert len(set(pids)) <= 2

    async def test_waiting_for_a_child_uses_up_no_time_of_the_call(self):
        pool = ChildPool(1)
        spinning = asyncio.create_task(pool.run(spin, timeout=3))
        waiting = [asyncio.create_task(pool.run(add, 1, 2, timeout=3)) for _ in range(3)]
        with pytest.raises(ChildTimeout):
            await spinning
        assert await asyncio.gather(*waiting) == [3, 3, 3]
        await pool.close()

    async def test_a_waiting_call_can_be_cancelled_and_takes_no_place(self):
        pool = ChildPool(1)
        spinning = asyncio.create_task(pool.run(spin, timeout=1))
        waiting = [asyncio.create_task(pool.run(add, 1, 2, timeout=20)) for _ in range(3)]
        await wait_until(lambda: len(pool._waiting) == 3, describe="three calls wait")
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        with pytest.raises(ChildTimeout):
            await spinning
        assert await asyncio.gather(*waiting[1:]) == [3, 3]
        await pool.close()

    async def test_a_child_is_replaced_after_its_number_of_calls(self):
        pool = ChildPool(1, calls_per_child=2)
        first, again, other = [await pool.run(pid, timeout=20) for _ in range(3)]
        assert first == again != other
        assert gone(first)
        await pool.close()

    async def test_a_child_that_stays_big_is_replaced(self):
        pool = ChildPool(1, warm_mb=1)
        first, other = [await pool.run(pid, timeout=20) for _ in range(2)]
        assert first != other
        await pool.close()

    async def test_a_child_that_died_while_idle_is_replaced_unseen(self, pool):
        first = await pool.run(pid, timeout=20)
        os.kill(first, signal.SIGKILL)
        await wait_until(lambda: gone(first), describe="the idle child is dead")
        assert await pool.run(pid, timeout=20) != first

    def test_the_default_pool_serves_one_event_loop_after_another(self):
        assert [asyncio.run(run_in_child(add, 1, n, timeout=20)) for n in range(3)] == [1, 2, 3]
        asyncio.run(close_children())

    async def test_the_default_pool_opens_again_after_it_was_closed(self):
        first = await run_in_child(pid, timeout=20)
        await close_children()
        assert gone(first)
        assert await run_in_child(pid, timeout=20) != first
        await close_children()

    def test_a_pool_serves_several_threads_at_once(self):
        pool, sums = ChildPool(1), []

        def serve(number: int) -> None:
            sums.append(asyncio.run(pool.run(add, number, number, timeout=20)))

        threads = [threading.Thread(target=serve, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(sums) == [2 * number for number in range(8)]
        asyncio.run(pool.close())


class TestEnds:
    async def test_cancelling_the_caller_kills_the_child(self, pool, tmp_path):
        path = tmp_path / "pid"
        call = asyncio.create_task(pool.run(spin, path, timeout=600))
        await wait_until(lambda: path.exists() and path.read_text(), describe="the child spins", timeout=60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert gone(int(path.read_text()))
        assert await pool.run(add, 1, 2, timeout=20) == 3

    async def test_closing_kills_idle_and_running_children_and_refuses_more(self, tmp_path):
        pool = ChildPool(2)
        path = tmp_path / "pid"
        call = asyncio.create_task(pool.run(spin, path, timeout=600))
        idle = await pool.run(pid, timeout=20)
        await wait_until(lambda: path.exists() and path.read_text(), describe="the child spins", timeout=60)
        await pool.close()
        with pytest.raises(ChildDied):
            await call
        assert gone(idle)
        assert gone(int(path.read_text()))
        with pytest.raises(RuntimeError, match="closed"):
            await pool.run(add, 1, 2, timeout=20)

    async def test_descriptors_and_processes_return_to_the_baseline(self):
        me = psutil.Process()
        before = me.num_fds(), {child.pid for child in me.children()}
        pool = ChildPool(2)
        for broken in (
            pool.run(spin, timeout=0.2),
            pool.run(leave, 1, timeout=20),
            pool.run(add, 1, 2, timeout=20),
        ):
            await asyncio.gather(broken, return_exceptions=True)
        await pool.close()
        assert (me.num_fds(), {child.pid for child in me.children()}) == before

    @pytest.mark.parametrize(
        ("call", "started"),
        [
            ("pool.run(spin, path, timeout=600)", "asyncio.run(main())"),
            ("asyncio.sleep(600)", "asyncio.run(main())"),
            ("asyncio.sleep(600)", "threading.Thread(target=asyncio.run, args=(main(),)).start()"),
        ],
        ids=["spinning", "idle", "idle and started by a thread"],
    )
    async def test_a_child_dies_with_a_parent_that_is_killed(self, tmp_path, call, started):
        path = tmp_path / "pid"
        parent = start_script(
            tmp_path,
            f"""
import asyncio, pathlib, threading
from pipeline.worker.offload import ChildPool
from tests.support.offloaded import announce, spin

path = pathlib.Path({str(path)!r})

async def main():
    pool = ChildPool(1)
    if "spin" not in {call!r}:
        await pool.run(announce, path, timeout=20)
    await {call}

{started}
""",
        )
        with parent:
            await wait_until(lambda: path.exists() and path.read_text(), describe="a child runs", timeout=60)
            parent.kill()
            await wait_until(
                lambda: gone(int(path.read_text())), describe="the child has followed its parent"
            )

    def test_nothing_is_left_or_said_when_the_interpreter_exits(self, tmp_path):
        parent = start_script(
            tmp_path,
            """
import asyncio
from pipeline.worker.offload import run_in_child
from tests.support.offloaded import pid

print(asyncio.run(run_in_child(pid, timeout=20)))
""",
        )
        out, err = parent.communicate(timeout=60)
        assert (parent.returncode, err) == (0, "")
        assert gone(int(out))

    def test_a_child_writes_nothing_into_the_output_of_its_parent(self, tmp_path):
        parent = start_script(
            tmp_path,
            """
import asyncio, json, os
from pipeline.worker.offload import run_in_child

def chatter():
    print("hello", flush=True)
    os.write(1, b"from C")
    os.write(2, b"and its errors")
    return {"ok": True}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(run_in_child(chatter, timeout=20))))
""",
        )
        out, err = parent.communicate(timeout=60)
        assert (json.loads(out), err) == ({"ok": True}, "")


class TestVoice:
    async def test_what_is_printed_by_a_child_that_may_be_heard_is_heard(self, capfd):
        pool = ChildPool(1, aloud=True)
        await pool.run(talk, "one", timeout=20)
        with pytest.raises(ChildTimeout):
            await pool.run(talk, "two", 60, timeout=1)
        await pool.close()
        heard = capfd.readouterr()
        assert heard.out == "one to stdout\ntwo to stdout\n"
        assert heard.err == "one to stderr\ntwo to stderr\n"

    async def test_it_is_heard_while_the_call_goes_on(self, tmp_path):
        parent = start_script(
            tmp_path,
            """
import asyncio
from pipeline.worker.offload import ChildPool
from tests.support.offloaded import talk

asyncio.run(ChildPool(1, aloud=True).run(talk, "now", 600, timeout=600))
""",
        )
        with parent:
            assert parent.stdout
            assert parent.stderr
            assert await asyncio.to_thread(parent.stdout.readline) == "now to stdout\n"
            assert await asyncio.to_thread(parent.stderr.readline) == "now to stderr\n"
            parent.kill()


class TestMain:
    def test_functions_and_classes_of_a_script_can_be_used(self, tmp_path):
        parent = start_script(
            tmp_path,
            """
import asyncio, dataclasses
from pipeline.worker.offload import run_in_child

@dataclasses.dataclass
class Point:
    x: int

def move(point):
    return Point(point.x + 1)

if __name__ == "__main__":
    print(isinstance(moved := asyncio.run(run_in_child(move, Point(1), timeout=20)), Point), moved.x)
""",
        )
        out, err = parent.communicate(timeout=60)
        assert (out, err) == ("True 2\n", "")

    def test_so_can_those_of_a_module_started_by_name(self, tmp_path):
        package = tmp_path / "product"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "tool.py").write_text(
            """
import asyncio
from pipeline.worker.offload import run_in_child
from . import __name__ as package

def name():
    return package

if __name__ == "__main__":
    print(asyncio.run(run_in_child(name, timeout=20)))
"""
        )
        done = subprocess.run(
            [sys.executable, "-m", "product.tool"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("product\n", "")

    @pytest.mark.parametrize("started", ["asyncio.run(main())", GUARDED])
    def test_a_program_without_a_guard_is_told_to_put_one_instead_of_running_again(self, tmp_path, started):
        parent = start_script(
            tmp_path,
            f"""
import asyncio
from contracts.jobs import JobPayload
from pipeline import Pipeline, on

class Resize(JobPayload, type="image:resize", queue="default", max_retry=1):
    image_id: str

def resize(job):
    print("resizing", job.image_id)

async def main():
    async with Pipeline.open(data_dir="data") as pipeline:
        receipt = await pipeline.enqueue(Resize(image_id="i1"))
        handlers = [on(Resize, resize, offload="process", retry=lambda failures: 0)]
        async with pipeline.workers(pools=["core"], handlers=handlers):
            try:
                await pipeline.wait(receipt.id, timeout=60)
            except Exception as error:
                print(error)
        print(sum(queue.archived for queue in await pipeline.inspector.queues()))

{started}
""",
        )
        out, _ = parent.communicate(timeout=60)
        *said, archived = out.splitlines()
        if started == GUARDED:
            assert (said, archived) == (["resizing i1"], "0")
        else:
            assert len(said) == 1, out
            assert "script.py is read by each child process" in said[0]
            assert said[0].endswith('belongs under `if __name__ == "__main__":`)')
            assert archived == "1"

    def test_a_function_typed_at_a_prompt_is_refused_with_what_to_do(self, tmp_path):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                PROMPT,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "define it in a file" in done.stderr
