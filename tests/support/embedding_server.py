"""A service that speaks the embeddings and chat calls of OpenAI, in a thread of its own: real vectors, one answer to whatever
it is shown, and the faults a test asks for.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from consumers.knowledge.embedding.hashing import HashingEmbedder

KEY = "sk-for-tests"


@dataclass
class EmbeddingServer:
    """What it was asked, and how it is to answer: `faults` are taken one a call, as (status, headers, body)."""

    port: int = 0
    models: dict[str, int] = field(default_factory=lambda: {"small": 96, "large": 256})
    faults: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    down: bool = False
    refuses: str = ""
    """Texts with this word are refused."""
    says: str = ""
    """What it says of pictures."""
    calls: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def settings(self, model: str = "small") -> dict[str, Any]:
        return {
            "embedding_base_url": self.url,
            "embedding_api_key": KEY,
            "embedding_model": model,
            "embedding_dimension": self.models[model],
        }

    def vision(self, model: str = "small") -> dict[str, Any]:
        return {"vision_base_url": self.url, "vision_api_key": KEY, "vision_model": model}

    def answer(self, key: str, asked: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        self.calls.append(asked)
        if self.down:
            return 500, {}, "down, as the test asked"
        if self.faults:
            return self.faults.pop(0)
        if self.refuses and any(self.refuses in text for text in asked.get("input", ())):
            return 400, {}, "refused, as the test asked"
        if key != f"Bearer {KEY}":
            return 401, {}, '{"error": {"message": "no such key"}}'
        if asked["model"] not in self.models:
            return 404, {}, f'{{"error": {{"message": "no model {asked["model"]}"}}}}'
        if "messages" in asked:
            said = {"role": "assistant", "content": self.says}
            return 200, {}, json.dumps({"choices": [{"index": 0, "message": said}]})
        dimension = asked.get("dimensions", self.models[asked["model"]])
        rows = asyncio.run(HashingEmbedder(dimension).embed([f"{text} " for text in asked["input"]]))
        data = [{"index": at, "embedding": (3 * row).tolist()} for at, row in enumerate(rows)]
        return 200, {}, json.dumps({"data": data[::-1], "model": asked["model"]})


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """Serve while the block runs."""
    state = EmbeddingServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, headers, body = state.answer(self.headers.get("authorization", ""), asked)
            data = body.encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = False

    with Server(("127.0.0.1", 0), Handler) as server:
        state.port = server.server_port
        serving = threading.Thread(target=server.serve_forever, args=(0.02,), name="embedding server")
        serving.start()
        try:
            yield state
        finally:
            server.shutdown()
            serving.join()
