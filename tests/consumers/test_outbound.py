import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest
from consumers.outbound import (
    AddressRefused,
    Outbound,
    StatusRefused,
    TooLarge,
    TooSlow,
    Unreachable,
    checked_address,
    public,
    resolve_checked,
)
from pipeline.config import Settings, load
from pipeline.errors import ConfigurationError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from tests.support.web import LOOPBACK, Answer, Web, served


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with served() as web:
        yield web


@pytest.fixture
def inside() -> Settings:
    """A platform that lets its users call the loopback."""
    return load(outbound_networks=LOOPBACK)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "0x7f000001", "2130706433", "0", "127.1", "0.0.0.0", "169.254.169.254"),
        *("10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255"),
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[fe80::1]", "[fc00::1]", "[fec0::1]", "[ff02::1]"),
        *("[2002:7f00:1::]", "[64:ff9b::7f00:1]", "[2001:0:7f00:1::]", "[::7f00:1]"),
    ],
)
async def test_an_address_that_is_not_of_the_public_network_is_refused_without_a_knock(
    host: str, tmp_path: Path
):
    with socket.create_server(("127.0.0.1", 0)) as ours:
        ours.settimeout(0)
        async with Outbound(load()) as outbound:
            with pytest.raises(AddressRefused, match="OUTBOUND_NETWORKS"):
                await outbound.fetch(f"http://{host}:{ours.getsockname()[1]}/", tmp_path / "read")
        with pytest.raises(BlockingIOError):
            ours.accept()


@pytest.mark.parametrize("address", ["93.184.216.34", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1"])
def test_an_address_of_the_public_network_may_be_called(address: str):
    assert public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "ftp://a.example/",
        "https:///x",
        "gopher://a",
        "",
        "x",
        "http://u:p@a.example/",
        "http://a\n",
        "http://a.example/" + "x" * 9000,
    ],
)
def test_what_is_no_plain_address_of_the_web_is_refused(address: str):
    with pytest.raises(AddressRefused):
        checked_address(address)


async def test_what_is_there_is_read_into_a_file_with_all_that_is_said_of_it(
    web: Web, inside: Settings, tmp_path: Path
):
    said = {"etag": '"1"', "last-modified": "Mon, 02 Mar 2026 10:00:00 GMT"}
    web.pages["/notes"] = Response("Grüße", headers=said, media_type="text/html; charset=utf-8")
    async with Outbound(inside) as outbound:
        found = await outbound.fetch(web.at("/notes"), tmp_path / "read")
    assert (tmp_path / "read").read_text() == "Grüße"
    assert (found.size, found.name, found.media_type, found.charset) == (
        7,
        "notes.html",
        "text/html",
        "utf-8",
    )
    assert (found.etag, found.last_modified) == tuple(said.values())


async def test_what_has_not_changed_is_not_sent_again(web: Web, inside: Settings, tmp_path: Path):
    web.pages["/"] = Response(status_code=304, headers={"etag": '"1"'})
    async with Outbound(inside) as outbound:
        found = await outbound.fetch(web.at(), tmp_path / "read", etag='"1"', last_modified="then")
    assert found.unchanged
    assert (web.headers()["if-none-match"], web.headers()["if-modified-since"]) == ('"1"', "then")
    assert not (tmp_path / "read").exists()


async def test_each_hop_of_a_redirect_passes_the_same_check(web: Web, tmp_path: Path):
    async def first_public(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"] if host == "public.example" else ["10.0.0.8"]

    for path, there in {
        "/a": "http://inner.example/",
        "/b": "file:///etc/passwd",
        "/c": "//0.0.0.0/",
    }.items():
        web.pages[path] = RedirectResponse(there)
        async with Outbound(load(outbound_networks="127.0.0.1"), resolve=first_public) as outbound:
            with pytest.raises(AddressRefused):
                await outbound.fetch(web.at(path, "public.example"), tmp_path / "read")


async def test_a_name_that_answers_something_else_the_next_time_gains_nothing(web: Web, tmp_path: Path):
    answers = iter([["127.0.0.1"], ["10.0.0.8"], ["127.0.0.1", "10.0.0.8"]])

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return next(answers)

    web.pages["/"] = Response("x", headers={"connection": "close"})
    async with Outbound(load(outbound_networks="127.0.0.1"), resolve=rebinding) as outbound:
        await outbound.fetch(
            web.at(host="rebinding.example"), tmp_path / "read"
        )  # resolved once, and that was called
        for _ in range(2):
            with pytest.raises(AddressRefused):
                await outbound.fetch(web.at(host="rebinding.example"), tmp_path / "read")


async def test_another_host_does_not_get_the_secret_headers(web: Web, inside: Settings, tmp_path: Path):
    web.pages["/"] = RedirectResponse(web.at("/there", "localhost"))
    web.pages["/same"] = RedirectResponse("/there")
    web.pages["/there"] = PlainTextResponse("x")
    async with Outbound(load(outbound_networks=f"{LOOPBACK},::1")) as outbound:
        for path in ("/", "/same"):
            await outbound.fetch(web.at(path), tmp_path / "read", headers={"authorization": "secret"})
    assert [request.headers.get("authorization") for request in web.asked] == [
        "secret",
        None,
        "secret",
        "secret",
    ]


async def test_redirects_in_a_circle_end(web: Web, inside: Settings, tmp_path: Path):
    web.pages["/"] = RedirectResponse("/")
    async with Outbound(inside) as outbound:
        with pytest.raises(AddressRefused, match="more than 5"):
            await outbound.fetch(web.at(), tmp_path / "read")


def endless(part: bytes) -> Answer:
    async def answer(request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            while not await request.is_disconnected():
                yield part

        return StreamingResponse(parts())

    return answer


async def test_more_than_the_limit_is_not_taken_whatever_is_said_of_its_size(
    web: Web, inside: Settings, tmp_path: Path
):
    web.pages["/endless"] = endless(b"x" * 65_536)
    web.pages["/said"] = Response(b"x" * 3_000_000)
    web.pages["/packed"] = Response(gzip.compress(bytes(3_000_000)), headers={"content-encoding": "gzip"})
    async with Outbound(inside) as outbound:
        for path in ("/endless", "/said", "/packed"):
            with pytest.raises(TooLarge, match="2 MB"):
                await outbound.fetch(web.at(path), tmp_path / "read", max_bytes=2 << 20)


async def test_an_answer_that_never_ends_is_given_up(web: Web, inside: Settings, tmp_path: Path):
    web.pages["/"] = endless(b"x")
    async with Outbound(inside) as outbound:
        with pytest.raises(TooSlow):
            await outbound.fetch(web.at(), tmp_path / "read", total_s=0.3)


async def test_a_name_that_is_never_resolved_is_given_up(tmp_path: Path):
    async def silent(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with Outbound(load(), resolve=silent) as outbound:
        with pytest.raises(TooSlow):
            await outbound.fetch("http://slow.example/", tmp_path / "read", total_s=0.1)


@pytest.mark.parametrize(
    ("status", "said", "passing", "wait"),
    [
        (404, "", False, None),
        (429, "7", True, 7.0),
        (503, "Mon, 02 Mar 2020 10:00:00 GMT", True, 0.0),
        (503, "soon", True, None),
        (503, "99999999999", True, 86_400.0),
        (302, "", False, None),
    ],
)
async def test_a_status_that_is_no_success_says_whether_and_when_to_come_again(
    status: int, said: str, passing: bool, wait: float | None, web: Web, inside: Settings, tmp_path: Path
):
    web.pages["/"] = Response(status_code=status, headers={"retry-after": said} if said else None)
    async with Outbound(inside) as outbound:
        with pytest.raises(StatusRefused, match=str(status)) as refused:
            await outbound.fetch(web.at(), tmp_path / "read")
    assert (refused.value.status, refused.value.passing, refused.value.retry_after) == (status, passing, wait)


async def test_a_host_where_nobody_answers_is_said_to_be_unreachable(inside: Settings, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with Outbound(inside) as outbound:
        for host in (f"127.0.0.1:{port}", "no-such-host.invalid", "a" * 70 + ".example"):
            with pytest.raises(Unreachable):
                await outbound.fetch(f"http://{host}/", tmp_path / "read")
    with pytest.raises(Unreachable):
        await resolve_checked(inside, "no-such-host.invalid", 80)
    with pytest.raises(AddressRefused):
        await resolve_checked(load(), "localhost", 80)


async def test_no_proxy_of_the_environment_is_asked(
    web: Web, inside: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    web.pages["/"] = PlainTextResponse("x")
    async with Outbound(inside) as outbound:
        assert (await outbound.fetch(web.at(), tmp_path / "read")).size == 1


@pytest.mark.parametrize(
    ("path", "kind", "disposition", "name"),
    [
        ("/report.pdf", "application/pdf", "", "report.pdf"),
        ("/", "text/html", "", "127.0.0.1.html"),
        ("/about.us", "text/html", "", "about.us.html"),
        ("/get", "application/pdf", 'attachment; filename="../../etc/cron.pdf"', "cron.pdf"),
        ("/page.php", "text/html", "", "page.php.html"),
        ("/data", "application/octet-stream", "", "data"),
    ],
)
async def test_the_name_of_what_was_read_tells_its_type(
    path: str, kind: str, disposition: str, name: str, web: Web, inside: Settings, tmp_path: Path
):
    headers = {"content-disposition": disposition} if disposition else None
    web.pages[path] = Response("x", media_type=kind, headers=headers)
    async with Outbound(inside) as outbound:
        assert (await outbound.fetch(web.at(path), tmp_path / "read")).name == name


def test_networks_and_folders_are_read_from_the_environment_and_never_from_the_database(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("STREAMLANE_OUTBOUND_NETWORKS", "10.1.0.0/16, fd00::/8")
    monkeypatch.setenv("STREAMLANE_SOURCE_FOLDERS", "/data/papers,/data/notes")
    settings = load()
    assert settings.shown()["outbound_networks"] == "10.1.0.0/16,fd00::/8"
    assert settings.source_folders == (Path("/data/papers"), Path("/data/notes"))
    assert not Settings.storable("outbound_networks")
    assert not Settings.storable("source_folders")
    for name, wrong in {"outbound_networks": "10.1.2.3/8", "source_folders": "papers"}.items():
        with pytest.raises(ConfigurationError, match=Settings.variable(name)):
            load(**{name: wrong})
