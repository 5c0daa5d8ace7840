import subprocess
import sys
import threading

from tests.support.leaks import Running


def test_a_thread_that_outlasts_its_test_is_named() -> None:
    before = Running.now()
    end = threading.Event()
    thread = threading.Thread(target=end.wait, args=(30,), name="left-behind")
    thread.start()
    assert before.leaked_since(grace=0.05) == ["thread left-behind"]
    end.set()
    assert before.leaked_since() == []


def test_a_child_process_that_outlasts_its_test_is_named_and_killed() -> None:
    before = Running.now()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    [leaked] = before.leaked_since(grace=0.05)
    assert leaked.startswith(f"process {child.pid}")
    child.communicate(timeout=10)
    assert child.returncode == -9
