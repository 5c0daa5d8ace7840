"""Every job type of the platform from a request over HTTP to what it came to, read over HTTP: in one process on files, and in
one on Redis and PostgreSQL.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from consumers.lanes import HANDLERS

from tests.support.commands import start_streamlane, streamlane
from tests.support.databases import POSTGRES, migrated
from tests.support.documents import png
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

GUIDE: Final = """# Worker pools

A worker pool is a set of queues with its own concurrency. The Core Pool serves the Default Queue, and the Shared Pool
borrows from the Core Pool. The Core Pool was written by Anna Berg in Oslo.

## How do I scale a pool?

Multiply the arrival rate by the mean duration and divide by 0.7. The Core Pool and the Wiki Pool never share slots.
"""
RIVER: Final = (
    "# Rivers\n\nThe Glomma is the longest river of Norway. It flows into the Oslofjord near Fredrikstad.\n"
)
ORDERS: Final = "order,amount\n" + "\n".join(f"A-{n},{n * 10}" for n in range(1, 21))
LEASE: Final = (
    b"# Lease\n\nThe monthly rent of the flat is 12,400 crowns, due on the third day of each month.\n"
)
ENDED: Final = {"completed", "failed", "cancelled"}
WAIT_S: Final = 240


class Caller:
    """Somebody with a key of one tenant."""

    def __init__(self, address: str, key: str) -> None:
        self._http = httpx.Client(base_url=f"{address}api/v1", headers={"X-API-Key": key}, timeout=60)
        self.proved: set[str] = set()

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **params: Any) -> Any:
        return self._said(self._http.get(path, params=params))

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        return self._said(self._http.post(path, json=body, **more))

    def send(self, path: str, name: str, data: bytes | str) -> Any:
        content = data if isinstance(data, bytes) else data.encode()
        return self._said(self._http.post(path, files={"file": (name, content)}))

    def patch(self, path: str, body: Any) -> Any:
        return self._said(self._http.patch(path, json=body))

    def delete(self, path: str) -> Any:
        return self._said(self._http.delete(path))

    def status(self, path: str) -> int:
        return self._http.get(path).status_code

    def until(self, look: Callable[[], Any], what: str) -> Any:
        """Wait until this gives something; what it gave."""
        return asyncio.run(wait_until(look, describe=what, timeout=WAIT_S, longest_pause=0.5))

    def document(self, ident: str, attempt: int = 1) -> Any:
        """A document, once this attempt at it has ended."""

        def ended() -> Any:
            found = self.get(f"/knowledge/{ident}")
            there = found["attempt"] >= attempt and found["parse_status"] in ENDED
            return found if there else None

        found = self.until(ended, f"the document {ident} has ended")
        assert found["parse_status"] == "completed", found
        return found

    def task(self, task_id: str) -> Any:
        """A task, once it has ended well."""

        def ended() -> Any:
            found = self.get(f"/tasks/{task_id}")
            return found if found["status"] in ENDED else None

        found = self.until(ended, f"the task {task_id} has ended")
        assert found["status"] == "completed", found
        return found

    def spans(self, ident: str) -> set[str]:
        """The names of the spans of the last parse of a document that ended well."""

        def names(span: Any) -> Iterator[str]:
            if span["status"] == "done":
                yield re.sub(r"\[.*", "", span["name"])
            for part in span["children"]:
                yield from names(part)

        return set(names(self.get(f"/knowledge/{ident}/spans")["trace"]))

    def _said(self, answer: httpx.Response) -> Any:
        assert answer.is_success, (answer.request.method, answer.url.path, answer.status_code, answer.text)
        return answer.json() if answer.content else None


@pytest.fixture(params=["lite", POSTGRES])
def caller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Caller]:
    """Call a process that serves and works, on files alone or on Redis with PostgreSQL."""
    folder, log = tmp_path / "data", tmp_path / "log"
    env = {"STREAMLANE_SOURCE_FOLDERS": str(tmp_path / "source")}
    with ExitStack() as stack:
        if request.param != "lite":
            url = stack.enter_context(migrated("postgres", tmp_path))
            env |= {
                "STREAMLANE_REDIS_URL": request.getfixturevalue("redis_url"),
                "STREAMLANE_NAMESPACE": "every",
                "STREAMLANE_DATABASE_URL": url.render_as_string(hide_password=False),
            }
        rights = ["--capability=knowledge_read", "--capability=knowledge_write"]
        made = streamlane(
            "keys", "create", "--name=e2e", "--tenant=1", "--json", *rights, data_dir=folder, env=env
        )
        process = start_streamlane("serve", "--port=0", data_dir=folder, env=env, log=log)
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)
        found = asyncio.run(
            wait_until(
                lambda: re.search(r"http://[\d.:]+/", log.read_text()), describe="it listens", timeout=60
            )
        )
        called = Caller(found.group(), made.json["key"])
        stack.callback(called.close)
        yield called


def test_every_type_is_asked_for_and_seen_over_http(caller: Caller, tmp_path: Path) -> None:
    base = caller.post("/knowledge-bases", WITH_ALL)["id"]
    guide, river = documents(caller, base)
    beside_documents(caller, base)
    remembered(caller, base)
    harvested(caller, base, tmp_path / "source")
    again_and_elsewhere(caller, base, guide, river)
    kept(caller, base)
    end(caller, base)
    assert caller.proved == {handler.payload.spec.type for handler in HANDLERS}


WITH_ALL: Final = {
    "name": "handbook",
    "settings": {"wiki": True, "auto_tag": True, "extract_graph": True, "profile": {"enabled": True}},
    "tags": [{"name": "worker pools", "description": "queues, concurrency and worker pools"}],
}


def documents(caller: Caller, base: str) -> tuple[str, str]:
    """What a document gets: two of the base, which come later on."""
    into = f"/knowledge-bases/{base}/knowledge"
    files: dict[str, str | bytes] = {
        "guide.md": GUIDE,
        "river.md": RIVER,
        "orders.csv": ORDERS,
        "picture.png": png(400, 300, 90),
    }
    sent = {name: caller.send(into, name, data)["knowledge"][0]["id"] for name, data in files.items()}
    found = {name: caller.document(ident) for name, ident in sent.items()}
    guide = found["guide.md"]
    assert guide["summary"]
    assert guide["questions"]
    assert "worker pools" in str(caller.until(lambda: tags(caller, guide["id"]), "the guide has its tag"))
    assert "multimodal.image" in caller.spans(sent["picture.png"])
    assert "postprocess.graph.chunk" in caller.spans(guide["id"])
    (table,) = caller.until(
        lambda: caller.get(f"/knowledge/{sent['orders.csv']}/tables")["tables"], "the table is described"
    )
    assert "has 20 rows" in table["description"]
    pages = f"/knowledge-bases/{base}/wiki/pages"
    caller.until(lambda: caller.status(f"{pages}/index") == 200, "the wiki has an index")
    assert "Worker pools" in str(caller.get(pages))
    profile = caller.until(lambda: profiled(caller, base), "the base is described")
    assert profile["topics"]
    said = caller.post(f"/knowledge-bases/{base}/ask", {"question": "Do the pools share slots?"})
    assert "never share slots" in said["answer"]
    assert guide["id"] in {one.get("knowledge_id") for one in said["citations"]}
    caller.proved |= {
        "document:process",
        "image:multimodal",
        "knowledge:post_process",
        "summary:generation",
        "question:generation",
        "chunk:extract",
        "knowledge:auto_tag",
        "datatable:summary",
        "wiki:ingest",
        "wiki:finalize",
        "kb:profile",
    }
    return guide["id"], sent["river.md"]


def tags(caller: Caller, ident: str) -> Any:
    return caller.get(f"/knowledge/{ident}")["tags"]


def profiled(caller: Caller, base: str) -> Any:
    path = f"/knowledge-bases/{base}/profile"
    found = caller.get(path) if caller.status(path) == 200 else {"status": ""}
    return found if found["status"] == "ready" else None


def beside_documents(caller: Caller, base: str) -> None:
    """What is written by hand, attached to a chat, or answered before."""
    written = {"title": "Opening hours", "content": "The library of Hamar opens at nine."}
    made = caller.post(f"/knowledge-bases/{base}/manual", written)
    caller.document(made["id"])
    assert "opens at nine" in found(caller, base, "when does the library of Hamar open")
    attached = caller.send("/sessions/s1/attachments", "lease.md", LEASE)["attachments"][0]["id"]
    asked = {"question": "How much is the monthly rent?", "attachments": [attached]}
    assert "12,400" in caller.post(f"/knowledge-bases/{base}/ask", asked)["answer"]
    entries = [{"question": "How do I pay?", "answers": ["By card at the desk."]}]
    task = caller.post(f"/knowledge-bases/{base}/faq/import", {"entries": entries})["task_id"]
    caller.task(task)
    matches = caller.post(f"/knowledge-bases/{base}/faq/search", {"query": "can I pay with a card"})[
        "matches"
    ]
    assert matches[0]["entry"]["question"] == "How do I pay?"
    caller.proved |= {"manual:process", "temporary_document:process", "faq:import"}


def harvested(caller: Caller, base: str, folder: Path) -> None:
    """A folder is brought in, and what changes in it afterwards."""
    folder.mkdir()
    (folder / "tide.md").write_text("# Tides\n\nHigh water comes twice a day.\n")
    (folder / "ferry.md").write_text("# Ferries\n\nThe ferry to Moss leaves every half hour.\n")
    source = caller.post(
        f"/knowledge-bases/{base}/sources",
        {"name": "notes", "kind": "folder", "config": {"path": str(folder)}},
    )["id"]

    def run() -> Any:
        log = caller.post(f"/sources/{source}/sync", {})["log_id"]
        path = f"/sources/{source}/logs/{log}"
        return caller.until(
            lambda: said if (said := caller.get(path))["state"] != "running" else None,
            "the source is harvested",
        )

    first = run()
    assert first["state"] == "success", first
    caller.until(lambda: "half hour" in found(caller, base, "when leaves the ferry to Moss"), "it is found")
    (folder / "ferry.md").unlink()
    second = run()
    assert second["state"] == "success", second
    caller.until(
        lambda: "half hour" not in found(caller, base, "when leaves the ferry to Moss"),
        "what was deleted there is not found any more",
    )
    caller.proved.add("datasource:sync")


def remembered(caller: Caller, base: str) -> None:
    """What somebody says of themselves in a session is known when they ask."""
    wishes = {"enabled": True, "write_mode": "auto", "delay_s": 5, "min_interval_s": 0}
    assert caller.patch("/memory/settings", wishes)["write_mode"] == "auto"
    messages, who = "/sessions/s1/messages", {"subject_id": "berg"}
    caller.post(messages, {**who, "role": "user", "content": "I live in Tromso."})
    closed = caller.post(messages, {**who, "role": "assistant", "content": "It is cold there."})
    assert closed["memory"] == "scheduled"
    items = "/memory/subjects/berg/items"
    (item,) = caller.until(lambda: caller.get(items)["items"], "what was said is remembered")
    assert (item["text"], item["method"]) == ("I live in Tromso.", "extractive")
    asked = {"question": "Where do I live?", "subject_id": "berg"}
    assert "Tromso" in caller.post(f"/knowledge-bases/{base}/ask", asked)["answer"]
    caller.proved.add("memory:extract")


def found(caller: Caller, base: str, query: str) -> str:
    hits = caller.post(f"/knowledge-bases/{base}/search", {"query": query})["hits"]
    return " ".join(hit["text"] for hit in hits)


def again_and_elsewhere(caller: Caller, base: str, guide: str, river: str) -> None:
    """Parsed again, embedded anew, copied, moved, and a part of it deleted."""
    into = f"/knowledge-bases/{base}"
    caller.task(caller.post(f"{into}/knowledge/batch-reparse", {"ids": [guide]})["task_id"])
    assert caller.document(guide, 2)["attempt"] == 2
    caller.task(caller.post(f"{into}/reembed", {"model": "hashing-1", "dimension": 256})["task_id"])
    assert caller.get(into)["embedding_dimension"] == 256
    assert "0.7" in found(caller, base, "how do I scale a pool")
    assert caller.task(caller.post(f"{into}/curate", {})["task_id"])["detail"]
    copy = caller.post("/knowledge-bases", {"name": "copy"})["id"]
    caller.task(caller.post("/knowledge-bases/copy", {"source_id": base, "target_id": copy})["task_id"])
    assert "Glomma" in found(caller, copy, "longest river of Norway")
    other = caller.post("/knowledge-bases", {"name": "rivers"})["id"]
    move = {"knowledge_ids": [river], "source_kb_id": base, "target_kb_id": other}
    caller.task(caller.post("/knowledge/move", move)["task_id"])
    assert "Glomma" in found(caller, other, "longest river of Norway")
    caller.until(
        lambda: "Glomma" not in found(caller, base, "longest river of Norway"),
        "the pages of the base do not speak of what was moved",
    )
    (chunk,) = caller.get(f"/knowledge/{river}/chunks")["chunks"]
    caller.delete(f"/knowledge-bases/{other}/knowledge/{river}/chunks/{chunk['id']}")
    caller.until(
        lambda: "Oslofjord" not in found(caller, other, "into the Oslofjord near Fredrikstad"),
        "a deleted passage is not found any more",
    )
    caller.proved |= {
        "knowledge:list_reparse",
        "ks:reembed",
        "ks:curate",
        "kb:clone",
        "knowledge:move",
        "index:delete",
    }


def kept(caller: Caller, base: str) -> None:
    """A backup answers after what came later is there no more."""
    backup = caller.post(f"/knowledge-bases/{base}/backups")["task_id"]
    caller.task(backup)
    assert [one["id"] for one in caller.get(f"/knowledge-bases/{base}/backups")["backups"]] == [backup]
    later = {"title": "Closing hours", "content": "The library of Hamar closes at five."}
    caller.document(caller.post(f"/knowledge-bases/{base}/manual", later)["id"])
    begun = caller.post("/knowledge-bases/restore", {"backup_id": backup, "name": "as it was"})
    caller.task(begun["task_id"])
    restored = begun["knowledge_base_id"]
    assert "opens at nine" in found(caller, restored, "when does the library of Hamar open")
    assert "closes at five" not in found(caller, restored, "when does the library of Hamar close")
    caller.proved |= {"ks:backup", "ks:restore"}


def end(caller: Caller, base: str) -> None:
    """Documents and a base go, with all they had."""
    sent = caller.send(f"/knowledge-bases/{base}/knowledge", "gone.md", "# Gone\n\nThis will not stay.\n")
    gone = sent["knowledge"][0]["id"]
    caller.document(gone)
    named = caller.post(f"/knowledge-bases/{base}/knowledge/batch-delete", {"ids": [gone]})
    assert named["deleted_count"] == 1
    caller.until(lambda: caller.status(f"/knowledge/{gone}") == 404, "the document is gone")
    task = caller.delete(f"/knowledge-bases/{base}")["task_id"]
    caller.task(task)
    assert caller.status(f"/knowledge-bases/{base}") == 404
    assert caller.post("/knowledge-bases", {"name": "handbook"})["id"] != base
    caller.proved |= {"knowledge:list_delete", "kb:delete"}
