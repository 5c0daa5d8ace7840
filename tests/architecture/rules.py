"""What the code is held to, one rule a function: from a file to the faults found in it."""

import ast
import re
import sys
from collections.abc import Iterator

from tests.architecture.sources import Source

MODULE_LINES = 400
TEST_LINES = 600
FUNCTION_LINES = 60
PARAMETERS = 7

NAMELESS = {"manager", "managers", "helper", "helpers", "util", "utils", "base", "bases"}
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

COMPOSING = {
    f"consumers/{name}.py"
    for name in [
        "api",
        "cli",
        "desk",
        "document_deeds",
        "graphs",
        "handlers/wiki",  # its batches are claimed
        "housekeeping",
        "lanes",
        "operator",
        "overseeing",
        "services",
        "settings",
        "sweeping",
        "waking",
        "wikis",
    ]
}
COMPOSED = {
    "pipeline.http",
    "pipeline.runtime",
    "pipeline.faststream_app",
    "pipeline.holding",
    "pipeline.store",
}
OPERATING = {
    f"consumers/commands/{name}.py"
    for name in [
        "acting",
        "dead",
        "documents",
        "hurrying",
        "jobs",
        "keys",
        "knowledge_bases",
        "operating",
        "queues",
        "serve",
        "setting_up",
        "settings",
        "tenants",
        "sources",
        "wording",
    ]
}
OPERATED = {
    "pipeline.actions",
    "pipeline.clock",
    "pipeline.projection",
    "pipeline.reasons",
    "pipeline.records",
}
"""What the terminal shows, and steers as the dashboard does."""

URL_HOST = re.compile(r"\b[a-z][a-z0-9+.-]*://(?:[^\s/@]*@)?([\w.-]+\.[a-z]{2,})\b", re.IGNORECASE)
KNOWN_HOSTS = re.compile(
    r"(.*\.)?example(\.(com|org|net))?|.*\.(test|invalid|localhost|local)"  # reserved for examples and tests
    r"|www\.apache\.org|(www\.)?(keepachangelog|semver)\.\w+"  # the licence, the form of the changelog
    r"|(www|schemas)\.(w3|openxmlformats|microsoft|oasis-open)\.(org|com)|purl\.org"  # names in XML
)
ELSEWHERE = re.compile(r"(?<![\w./$}-])/(?:root|home|Users|work|opt|mnt|srv|tmp)/[\w.]")
ABOVE = re.compile(r"(?<![\w.])(?:\.\./)+(?!\.)(\w+)/")
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X|HA[C]K|NotImplemented[E]rror)\b|(?i:\bfor no[w]\b)")


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(source: Source) -> Iterator[Function]:
    return (node for node in ast.walk(source.tree) if isinstance(node, Function))


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Each imported module as (line, dotted name); of `from a import b`, `a.b`. Deferred imports too."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = source.path.removesuffix(".py").split("/")[: -node.level or None] if node.level else []
            origin = ".".join([*package, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def module_fits(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    cap = TEST_LINES if source.floor == "tests" else MODULE_LINES
    if lines > cap:
        yield source.fault(cap + 1, f"{lines} lines; a module has at most {cap}")


def functions_fit(source: Source) -> Iterator[str]:
    for function in functions(source):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES:
            yield source.fault(function.lineno, f"{function.name} has {lines} lines of {FUNCTION_LINES}")


def parameters_are_few(source: Source) -> Iterator[str]:
    """Keyword-only options are not counted."""
    for function in functions(source):
        names = [a.arg for a in function.args.posonlyargs + function.args.args]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > PARAMETERS:
            yield source.fault(function.lineno, f"{function.name} takes {count} parameters of {PARAMETERS}")


def names_say_something(source: Source) -> Iterator[str]:
    """A knowledge base is the one base there is."""
    stem = source.path.removesuffix(".py").rpartition("/")[2]
    named = [(1, "module", stem)]
    named += [
        (node.lineno, "class", node.name) for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)
    ]
    for line, kind, name in named:
        words = [word.lower() for word in WORDS.findall(name)]
        for before, word in zip(["", *words], words, strict=False):
            if word in NAMELESS and before != "knowledge":
                yield source.fault(line, f"{kind} {name}: {word!r} says nothing; name the concept")


def contracts_stand_alone(source: Source) -> Iterator[str]:
    if source.floor != "contracts":
        return
    for line, name in imports(source):
        if name.partition(".")[0] not in sys.stdlib_module_names | {"pydantic", "pydantic_core", "contracts"}:
            yield source.fault(line, f"contracts imports {name}; only the standard library and pydantic")


def internals_leave_the_root_alone(source: Source) -> Iterator[str]:
    """`from pipeline import x` inside pipeline reads a package that is not finished importing."""
    if source.floor != "pipeline" or source.path == "pipeline/__init__.py":
        return
    for line, name in imports(source):
        if name.startswith("pipeline") and name.count(".") < 2:
            yield source.fault(line, f"imports {name} through the package root; name its module")


def consumers_use_the_public_names(source: Source) -> Iterator[str]:
    if source.floor != "consumers":
        return
    composes = source.path in COMPOSING or source.path.startswith("consumers/http/")
    allowed = {"pipeline.errors"} | (COMPOSED if composes else set())  # a public name itself
    if source.path.startswith("consumers/http/"):
        allowed = allowed | {"pipeline.inspector"}  # how long a page is
    if source.path in OPERATING:
        allowed = allowed | COMPOSED | OPERATED
    if source.path.startswith("consumers/migrations/") or stores(source):
        allowed = allowed | {"pipeline.store"}
    for line, name in imports(source):
        inside = name.startswith("pipeline.") and name.count(".") >= 2
        if inside and not any(f"{name}.".startswith(f"{package}.") for package in allowed):
            yield source.fault(line, f"imports {name}; take it from pipeline")


def stores(source: Source) -> bool:
    """Whether this module of the domain talks SQL, and so may know the engine and its tables."""
    return any(name.partition(".")[0] == "sqlalchemy" for _, name in imports(source))


def what_others_read_is_explained(source: Source) -> Iterator[str]:
    if source.floor != "contracts":
        return
    if source.text and not ast.get_docstring(source.tree):
        yield source.fault(1, "a module of contracts has a docstring")
    outer = [source.tree.body] + [
        node.body for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)
    ]
    for node in (node for body in outer for node in body if isinstance(node, Function | ast.ClassDef)):
        if not node.name.startswith("_") and not ast.get_docstring(node):
            yield source.fault(node.lineno, f"{node.name} is public and has no docstring")


def lints_are_not_silenced(source: Source) -> Iterator[str]:
    """The clock, the sleep and the arrows have their one exception each, in the configuration."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if re.search(r"#\s*(?:noqa\s*(?!:)|noqa:.*TID25[1]|ruff:\s*noqa|mypy:\s*ignore-errors)", line):
            yield source.fault(number, "silences a rule that has no exceptions")


def text_stays_at_home(source: Source) -> Iterator[str]:
    """No path outside the project, no host on the network but the reserved ones."""
    if source.path == "LICENSE":
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := ELSEWHERE.search(line):
            yield source.fault(number, f"names {found.group()}…, a path outside the project")
        for host in URL_HOST.findall(line):
            if not KNOWN_HOSTS.fullmatch(host):
                yield source.fault(number, f"names the host {host}")
        for folder in ABOVE.findall(line):
            if folder == "shared" and source.floor not in {"tests", "bench", "README.md", "CHANGELOG.md"}:
                yield source.fault(number, "the shared samples are for tests, bench and the README")


def nothing_is_unfinished(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := UNFINISHED.search(line):
            yield source.fault(number, f"says {found.group()!r}; finish it or leave it out")


OF_MODULES = [
    module_fits,
    functions_fit,
    parameters_are_few,
    names_say_something,
    contracts_stand_alone,
    internals_leave_the_root_alone,
    consumers_use_the_public_names,
    what_others_read_is_explained,
    lints_are_not_silenced,
]
OF_TEXTS = [text_stays_at_home, nothing_is_unfinished]
