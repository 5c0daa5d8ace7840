"""The project keeps its rules, and each rule finds the fault it is there for."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.architecture import rules
from tests.architecture.sources import ROOT, Source, modules, texts

Rule = Callable[[Source], Iterator[str]]


@pytest.mark.parametrize("rule", rules.OF_MODULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps(rule: Rule) -> None:
    faults = [fault for module in modules() for fault in rule(module)]
    assert not faults, "\n".join(["", *faults])


@pytest.mark.parametrize("rule", rules.OF_TEXTS, ids=lambda rule: rule.__name__)
def test_every_text_keeps(rule: Rule) -> None:
    faults = [fault for text in texts() for fault in rule(text)]
    assert not faults, "\n".join(["", *faults])


PLANTED = [
    (rules.module_fits, "pipeline/long.py", "pass\n" * 401),
    (rules.module_fits, "tests/unit/test_long.py", "pass\n" * 601),
    (rules.functions_fit, "pipeline/x.py", "def f():\n" + "    pass\n" * 60),
    (rules.parameters_are_few, "pipeline/x.py", "def f(a, b, c, d, e, f, g, h): ...\n"),
    (rules.names_say_something, "pipeline/job_manager.py", ""),
    (rules.names_say_something, "pipeline/utils.py", ""),
    (rules.names_say_something, "pipeline/x.py", "class HTTPHelper: ...\n"),
    (rules.names_say_something, "pipeline/x.py", "class BaseHandler: ...\n"),
    (rules.contracts_stand_alone, "contracts/x.py", "import sqlalchemy\n"),
    (rules.contracts_stand_alone, "contracts/x.py", "def f():\n    from pipeline import clock\n"),
    (rules.internals_leave_the_root_alone, "pipeline/x.py", "from pipeline import Context\n"),
    (rules.internals_leave_the_root_alone, "pipeline/worker/x.py", "from .. import Context\n"),
    (rules.consumers_use_the_public_names, "consumers/x.py", "from pipeline.broker import Broker\n"),
    (rules.consumers_use_the_public_names, "consumers/x.py", "from pipeline.store.engine import Database\n"),
    (rules.consumers_use_the_public_names, "consumers/cli.py", "from pipeline.broker import Broker\n"),
    (rules.what_others_read_is_explained, "contracts/x.py", '"""X."""\nclass Open: ...\n'),
    (rules.what_others_read_is_explained, "contracts/x.py", '"""X."""\nclass _In:\n    def f(self): ...\n'),
    (rules.lints_are_not_silenced, "pipeline/x.py", "import time  # no" + "qa\n"),
    (rules.lints_are_not_silenced, "tests/unit/test_x.py", "time.sleep(1)  # no" + "qa: TID251\n"),
    (rules.text_stays_at_home, "README.md", "see /ho" + "me/ann/notes\n"),
    (rules.text_stays_at_home, "deploy/x", "get http:/" + "/registry.acme.io/x\n"),
    (rules.text_stays_at_home, "pipeline/x.py", "SAMPLES = '../sha" + "red/samples'\n"),
    (rules.nothing_is_unfinished, "docs/x.md", "TO" + "DO: explain\n"),
    (rules.nothing_is_unfinished, "pipeline/x.py", "raise NotImplemented" + "Error\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_fault_is_found_by(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text)))


ALLOWED = [
    (
        rules.names_say_something,
        "consumers/knowledge/x.py",
        "class KnowledgeBaseRow: ...\nclass Database: ...\n",
    ),
    (
        rules.parameters_are_few,
        "pipeline/x.py",
        "class A:\n    def f(self, a, b, c, d, e, f, g, *, h): ...\n",
    ),
    (rules.consumers_use_the_public_names, "consumers/x.py", "from pipeline import on\n"),
    (rules.consumers_use_the_public_names, "consumers/cli.py", "from pipeline.runtime import serve\n"),
    (rules.text_stays_at_home, "docs/x.md", "POST http://127.0.0.1:8000/api and https://example.com/hook\n"),
    (rules.text_stays_at_home, "bench/x.py", "SAMPLES = '../shared/samples'\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), ALLOWED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_right_passes(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text))) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("pipeline/x.py", "time.time()"),
        ("consumers/x.py", "datetime.datetime.now(tz=datetime.UTC)"),
        ("tests/unit/test_x.py", "time.time()"),
        ("tests/unit/test_x.py", "time.sleep(1)"),
        ("tests/unit/test_x.py", "asyncio.sleep(1)"),
    ],
)
def test_the_wall_clock_and_sleep_are_lint_errors(path: str, code: str) -> None:
    lint = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--output-format=concise", f"--stdin-filename={path}", "-"],
        input=f"import asyncio\nimport datetime\nimport time\n\nprint({code}, asyncio, datetime, time)\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "TID251" in lint.stdout
