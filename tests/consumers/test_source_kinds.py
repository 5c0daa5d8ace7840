"""The kinds of sources against real servers: a bucket, a repository, a web site."""

import asyncio
import gzip
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from consumers.sources.connector import Item, SourceError, Surroundings
from consumers.sources.kinds import kind_of, kinds
from contracts.sources import SyncMode, SyncState
from moto.server import ThreadedMotoServer
from pipeline.clock import now_ms
from pipeline.config import load
from pipeline.errors import ConfigurationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from tests.support.databases import migrated
from tests.support.harvest import Harvest, counts, open_harvest, write
from tests.support.web import LOOPBACK, served


@pytest.fixture
async def harvest(tmp_path):
    with migrated("sqlite", tmp_path) as url:
        async with open_harvest(tmp_path, url, outbound_networks=LOOPBACK) as opened:
            yield opened


def test_every_kind_explains_itself():
    assert list(kinds())[:4] == ["folder", "web", "s3", "git"]
    assert all(kind.about and kind.config.__doc__ for kind in list(kinds().values())[:4])


SECRET = {"access_key": "reader", "secret_key": "hunter2"}


@pytest.fixture
def moto() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(moto: str) -> Iterator[Any]:
    key = {"aws_access_key_id": "writer", "aws_secret_access_key": "x", "region_name": "us-east-1"}
    made = boto3.resource("s3", endpoint_url=moto, **key).create_bucket(Bucket="papers")
    yield made
    made.objects.delete()
    made.delete()


async def test_a_bucket_is_kept_in_step(harvest: Harvest, moto: str, bucket: Any):
    keys = ["a.txt", "b c/ü+%&=.md", "b c/d.txt", "папка/я.txt", *(f"many/{n:03}.txt" for n in range(120))]
    for key in [*keys, "folder/", "skipped.bin"]:
        bucket.put_object(Key=key, Body=f"this is {key}".encode())
    config = {"endpoint": moto, "bucket": "papers", "exclude": ["*.bin"]}
    source = await harvest.source("s3", config, credentials=SECRET)
    assert counts(await harvest.sync(source)) == {"created": 124}
    before = await harvest.documents()
    assert sorted(before) == sorted(keys)
    read = await harvest.services.files.read(before["b c/ü+%&=.md"].file_key)
    assert read.decode() == "this is b c/ü+%&=.md"
    bucket.put_object(Key="a.txt", Body=b"other")
    bucket.Object("moved.txt").copy({"Bucket": "papers", "Key": "b c/d.txt"})
    for key in ("b c/d.txt", "many/000.txt"):
        bucket.Object(key).delete()
    assert counts(await harvest.sync(source)) == {"changed": 1, "renamed": 1, "deleted": 1, "unchanged": 121}
    assert (await harvest.documents())["moved.txt"].id == before["b c/d.txt"].id
    assert counts(await harvest.sync(source, mode=SyncMode.FULL)) == {"unchanged": 123}
    run = await harvest.sync(source, mode=SyncMode.HEALTH)
    assert (run.state, run.message) == (SyncState.SUCCESS, "the bucket papers can be listed")


async def test_a_part_of_a_bucket_is_kept_in_step(harvest: Harvest, moto: str, bucket: Any):
    for key in ("in/a.txt", "in/b.txt", "out/c.txt"):
        bucket.put_object(Key=key, Body=key.encode())
    config = {"endpoint": moto, "bucket": "papers", "prefix": "in/"}
    await harvest.sync(await harvest.source("s3", config, credentials=SECRET))
    assert sorted(await harvest.documents()) == ["in/a.txt", "in/b.txt"]


async def test_a_bucket_that_cannot_be_read_says_why(harvest: Harvest, moto: str):
    async def health(name: str, **config: Any) -> str:
        source = await harvest.source("s3", {"bucket": "papers", **config}, name=name, credentials=SECRET)
        run = await harvest.sync(source, mode=SyncMode.HEALTH)
        assert run.state is SyncState.FAILED
        return run.message

    assert "no such bucket" in await health("none", endpoint=moto)
    assert "cannot be reached" in await health("away", endpoint="http://127.0.0.1:1")
    assert "lies in a network" in await health("inner", endpoint="http://10.0.0.8")


@pytest.mark.parametrize("key", ["../other/secret.txt", "a/../b.txt", "./a.txt"])
async def test_an_object_whose_key_leads_elsewhere_is_not_asked_for(key: str, tmp_path: Path):
    async with served() as web:
        kind = kind_of("s3")
        config = kind.config.model_validate({"endpoint": web.at(""), "bucket": "papers"})
        around = Surroundings(load(outbound_networks=LOOPBACK), tmp_path, now_ms)
        async with kind.connect(config, kind.credentials.model_validate(SECRET), around) as opened:
            with pytest.raises(SourceError, match="leads elsewhere"):
                await opened.fetch(Item(key), tmp_path / "read", "")
        assert web.paths == []


def git(folder: Path, *arguments: str) -> str:
    """Do something in a repository, as its owner would."""
    folder.mkdir(parents=True, exist_ok=True)
    said = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *said, *arguments], cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x")


async def test_a_repository_is_kept_in_step(harvest: Harvest, tmp_path: Path):
    repository = tmp_path / "repository"
    git(repository, "init", "--quiet")
    write(repository, {"README.md": "read me", "docs/a.md": "a", "docs/ü.md": "ü", "src/x.py": "print()"})
    (repository / "link.md").symlink_to("README.md")
    commit(repository)
    config = {"url": f"file://{repository}", "include": ["*.md"]}
    source = await harvest.source("git", config)
    run = await harvest.sync(source)
    assert (run.state, counts(run)) == (SyncState.SUCCESS, {"created": 3})
    before = await harvest.documents()
    assert sorted(before) == ["README.md", "docs/a.md", "docs/ü.md"]
    assert counts(await harvest.sync(source)) == {}  # the head is the same: nothing was even fetched
    write(repository, {"README.md": "read me now"})
    git(repository, "mv", "docs/a.md", "docs/b.md")
    git(repository, "rm", "--quiet", "docs/ü.md")
    commit(repository)
    assert counts(await harvest.sync(source)) == {"changed": 1, "renamed": 1, "deleted": 1}
    after = await harvest.documents()
    assert (after["docs/b.md"].id, after["docs/b.md"].attempt) == (before["docs/a.md"].id, 1)
    assert await harvest.services.files.read(after["README.md"].file_key) == b"read me now"


async def test_a_branch_and_a_folder_of_a_repository(harvest: Harvest, tmp_path: Path):
    repository = tmp_path / "repository"
    git(repository, "init", "--quiet")
    write(repository, {"a.md": "a"})
    commit(repository)
    git(repository, "checkout", "--quiet", "-b", "drafts/next")
    write(repository, {"docs/new.md": "new"})
    commit(repository)
    git(repository, "checkout", "--quiet", "main")
    config = {"url": f"file://{repository}", "branch": "drafts/next", "under": "docs"}
    await harvest.sync(await harvest.source("git", config))
    assert list(await harvest.documents()) == ["docs/new.md"]
    gone = await harvest.source("git", {**config, "branch": "gone"}, name="gone")
    run = await harvest.sync(gone, mode=SyncMode.HEALTH)
    assert (run.state, run.message) == (SyncState.FAILED, "it has no branch gone")


async def test_a_repository_over_http(harvest: Harvest, tmp_path: Path):
    """Served as plain files, as any web server can; who has no token does not get them."""
    repository, asked = tmp_path / "repository", []
    git(repository, "init", "--quiet")
    write(repository, {"a.md": "a"})
    commit(repository)
    git(repository, "repack", "-adq")
    git(repository, "update-server-info")

    async def file(request: Request) -> Response:
        asked.append(request.headers.get("authorization", ""))
        if not asked[-1].startswith("Basic "):
            return Response(status_code=403)
        path = repository / ".git" / request.url.path.removeprefix("/r.git/")
        return Response(path.read_bytes()) if path.is_file() else Response(status_code=404)

    async with served() as web:
        web.rest = file
        config = {"url": web.at("/r.git")}
        source = await harvest.source("git", config, credentials={"token": "hunter2"})
        run = await harvest.sync(source, mode=SyncMode.HEALTH)
        assert (run.state, run.message[:12]) == (SyncState.SUCCESS, "its head is ")
        other = await harvest.source("git", config, name="no token")
        run = await harvest.sync(other, mode=SyncMode.HEALTH)
        assert (run.state, "403" in run.message) == (SyncState.FAILED, True)
    assert "hunter2" not in run.message


async def test_an_old_git_that_would_look_up_the_address_by_itself_is_not_asked(
    harvest: Harvest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old = tmp_path / "bin" / "git"
    write(tmp_path, {"bin/git": "#!/bin/sh\necho git version 2.34.1\n"})
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    async with served() as web:
        source = await harvest.source("git", {"url": web.at("/r.git")})
        run = await harvest.sync(source, mode=SyncMode.HEALTH)
    assert (run.state, run.message) == (
        SyncState.FAILED,
        "git 2.34.1 on the machine of this worker is too old: 2.37 is the first that keeps to a checked address",
    )


@pytest.mark.parametrize(
    "url",
    ["file:///etc", "ext::sh -c id", "ssh://a.example/x", "--upload-pack=id", "git://a.example/x", "/etc"],
)
def test_a_repository_is_nothing_that_runs_or_reads_what_it_may_not(url: str, tmp_path: Path):
    with pytest.raises(ConfigurationError):
        kind_of("git").checked({"url": url}, {}, load(source_folders=str(tmp_path)))


async def test_a_repository_that_brings_too_much_is_given_up(harvest: Harvest, tmp_path: Path):
    repository = tmp_path / "repository"
    git(repository, "init", "--quiet")
    repository.joinpath("big.md").write_bytes(os.urandom(3 << 20))
    commit(repository)
    config = kind_of("git").config.model_validate({"url": f"file://{repository}", "max_mb": 1})
    around = Surroundings(load(source_folders=str(tmp_path)), tmp_path / "data", now_ms)
    async with kind_of("git").connect(config, kind_of("git").credentials(), around) as opened:
        with pytest.raises(SourceError, match="1 MB of max_mb"):
            await anext(aiter(opened.changes("")))


SITEMAP = '<urlset xmlns="http://sitemaps.example/0.9">{}</urlset>'


def sitemap(pages: dict[str, str], of: Callable[[str], str]) -> str:
    return SITEMAP.format(
        "".join(f"<url><loc>{of(path)}</loc><lastmod>{when}</lastmod></url>" for path, when in pages.items())
    )


async def test_a_site_is_kept_in_step_by_its_sitemap(harvest: Harvest):
    async with served() as web:
        pages = {"/a": "2026-01-01", "/b": "2026-01-02", "/c": ""}
        outer = f"<sitemapindex><sitemap><loc>{web.at('/pages.xml.gz')}</loc></sitemap></sitemapindex>"
        web.pages["/robots.txt"] = PlainTextResponse(
            f"Sitemap: {web.at('/outer.xml')}\nUser-agent: *\nDisallow: /c"
        )
        web.pages["/outer.xml"] = Response(outer, media_type="text/xml")

        def publish() -> None:
            web.pages["/pages.xml.gz"] = Response(gzip.compress(sitemap(pages, web.at).encode()))
            for path, when in pages.items():
                web.pages[path] = HTMLResponse(f"<p>{path} of {when}</p>", headers={"etag": f'"{when}"'})

        publish()
        source = await harvest.source("web", {"start": web.at(), "pause_s": 0})
        run = await harvest.sync(source)
        assert (run.state, counts(run)) == (SyncState.PARTIAL, {"created": 2, "failed": 1})
        assert "robots.txt" in run.errors[0]["error"]
        assert {row.file_name for row in (await harvest.documents()).values()} == {"a.html", "b.html"}
        web.asked.clear()
        pages |= {"/a": "2026-02-01", "/d": "2026-02-02"}
        del pages["/b"], pages["/c"]
        publish()
        assert counts(await harvest.sync(source)) == {"changed": 1, "created": 1, "deleted": 2}
        assert [path for path in web.paths if len(path) == 2] == ["/a", "/d"]
        assert all(request.headers["user-agent"].startswith("Streamlane") for request in web.asked)


async def test_pages_without_a_date_are_asked_whether_they_changed(harvest: Harvest):
    async with served() as web:

        async def page(request: Request) -> Response:
            if request.headers.get("if-none-match") == '"1"':
                return Response(status_code=304)
            return HTMLResponse("<p>a</p>", headers={"etag": '"1"'})

        web.pages["/sitemap.xml"] = Response(sitemap({"/a": ""}, web.at))
        web.pages["/a"] = page
        source = await harvest.source("web", {"start": web.at("/sitemap.xml"), "pause_s": 0})
        assert counts(await harvest.sync(source)) == {"created": 1}
        assert counts(await harvest.sync(source)) == {"unchanged": 1}
        assert web.headers()["if-none-match"] == '"1"'


async def test_the_news_of_a_feed_come_in_and_what_it_forgets_stays(harvest: Harvest):
    async with served() as web:

        def publish(*entries: str) -> None:
            told = "".join(
                f"<item><link>{web.at(one)}</link><pubDate>{one}</pubDate></item>" for one in entries
            )
            web.pages["/feed"] = Response(f"<rss><channel><link>/</link>{told}</channel></rss>")
            web.pages |= {one: HTMLResponse(f"<p>{one}</p>") for one in entries}

        publish("/1", "/2")
        source = await harvest.source("web", {"start": web.at("/feed"), "method": "feed", "pause_s": 0})
        assert counts(await harvest.sync(source)) == {"created": 2}
        publish("/2", "/3")
        assert counts(await harvest.sync(source)) == {"created": 1, "unchanged": 1}
        assert len(await harvest.documents()) == 3
        atom = (
            f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{web.at("/4")}"/></entry></feed>'
        )
        web.pages |= {"/feed": Response(atom), "/4": HTMLResponse("4")}
        assert counts(await harvest.sync(source)) == {"created": 1}


def linked(*to: str, head: str = "") -> HTMLResponse:
    return HTMLResponse(f"<html><head>{head}</head>{''.join(f'<a href={one!r}>x</a>' for one in to)}</html>")


async def test_a_crawl_follows_the_links_of_one_site_and_asks_again_only_for_what_changed(harvest: Harvest):
    async with served() as web:
        web.pages |= {
            "/": linked("a", "b?x=1#y", "http://other.example/", "mailto:a@b.example", "/private/x", "/gone"),
            "/a": linked("c", "../", head='<meta name="robots" content="noindex">'),
            "/b": linked("/c", "/d", "report.pdf"),
            "/c": linked("e", head='<meta name="robots" content="nofollow">'),
            "/d": linked("/a"),
            "/report.pdf": Response(b"%PDF-1.4 x", media_type="application/pdf"),
            "/robots.txt": PlainTextResponse("User-agent: *\nDisallow: /private"),
        }
        source = await harvest.source("web", {"start": web.at(), "method": "crawl", "pause_s": 0})
        run = await harvest.sync(source)
        assert (run.state, run.errors) == (SyncState.SUCCESS, [])
        host = web.at("")
        found = {name.removeprefix(host) for name in await harvest.documents()}
        assert found == {"/", "/b?x=1", "/c", "/d", "/report.pdf"}
        assert "/private/x" not in web.paths
        assert counts(await harvest.sync(source)) == {"unchanged": 5}
        tagged = {"etag": '"b"'}
        web.pages["/b"] = Response(linked("/c", "/f").body, headers=tagged, media_type="text/html")
        web.pages["/f"] = linked()
        del web.pages["/report.pdf"]
        assert counts(await harvest.sync(source)) == {
            "changed": 1,
            "created": 1,
            "deleted": 2,
            "unchanged": 2,
        }

        async def unchanged(request: Request) -> Response:
            return Response(status_code=304 if request.headers.get("if-none-match") == '"b"' else 500)

        web.pages["/b"] = unchanged
        assert counts(await harvest.sync(source)) == {
            "unchanged": 4
        }  # its links are known from the last time


async def test_a_crawl_stops_at_its_limit_and_keeps_its_pace(harvest: Harvest):
    async with served() as web:
        for number in range(30):
            web.pages[f"/{number or ''}"] = linked(f"/{number + 1}")
        web.pages["/robots.txt"] = PlainTextResponse("User-agent: *\nCrawl-delay: 0.02")
        config = {"start": web.at(), "method": "crawl", "pause_s": 0, "max_pages": 25}
        began = now_ms()
        assert counts(await harvest.sync(await harvest.source("web", config))) == {"created": 25}
        assert now_ms() - began >= 25 * 20 - 20


async def test_a_page_that_fails_takes_nothing_along_that_only_it_leads_to(harvest: Harvest):
    async with served() as web:
        web.pages |= {"/": linked("/hub"), "/hub": linked("/leaf"), "/leaf": linked()}
        source = await harvest.source("web", {"start": web.at(), "method": "crawl", "pause_s": 0})
        assert counts(await harvest.sync(source)) == {"created": 3}
        web.pages["/hub"] = Response(status_code=500)
        run = await harvest.sync(source)
        assert counts(run) == {"unchanged": 2, "failed": 1}
        assert len(await harvest.documents()) == 3


async def test_a_crawl_ends_on_a_site_of_endless_pages_that_want_not_to_be_kept(harvest: Harvest):
    async with served() as web:

        async def page(request: Request) -> Response:
            number = int(request.url.path.strip("/") or 0)
            wanted = '<meta name="robots" content="noindex">' if number else ""
            return linked(*(f"/{10 * number + one}" for one in range(1, 10)), head=wanted)

        web.pages["/robots.txt"], web.rest = PlainTextResponse(""), page
        config = {"start": web.at(), "method": "crawl", "pause_s": 0, "max_pages": 20}
        async with asyncio.timeout(20):
            assert counts(await harvest.sync(await harvest.source("web", config))) == {"created": 1}
        assert len(web.asked) == 21


async def test_a_page_that_leads_to_where_robots_refuse_fails_alone(harvest: Harvest):
    async with served() as web:
        web.pages |= {
            "/robots.txt": PlainTextResponse("User-agent: *\nDisallow: /private"),
            "/sitemap.xml": Response(sitemap({"/a": "", "/b": ""}, web.at)),
            "/a": RedirectResponse(web.at("/private/a")),
            "/b": HTMLResponse("b"),
            "/private/a": HTMLResponse("private"),
        }
        run = await harvest.sync(await harvest.source("web", {"start": web.at(), "pause_s": 0}))
        assert counts(run) == {"created": 1, "failed": 1}
        assert "robots.txt" in run.errors[0]["error"]


async def test_a_page_that_leads_to_another_site_fails_alone_and_a_busy_site_is_asked_again(harvest: Harvest):
    async with served() as web, served() as other:
        busy = [1]

        async def once_busy(_: Request) -> Response:
            return (
                Response(status_code=503, headers={"retry-after": "0"}) if busy.pop() else HTMLResponse("b")
            )

        busy.insert(0, 0)
        other.pages["/"] = HTMLResponse("secret")
        web.pages |= {
            "/sitemap.xml": Response(sitemap({"/a": "", "/b": ""}, web.at)),
            "/a": RedirectResponse(other.at()),
            "/b": once_busy,
        }
        run = await harvest.sync(await harvest.source("web", {"start": web.at(), "pause_s": 0}))
        assert counts(run) == {"created": 1, "failed": 1}
        assert "another site" in run.errors[0]["error"]


@pytest.mark.parametrize(
    "bomb",
    [
        "<urlset>",
        "no xml",
        '<!DOCTYPE x [<!ENTITY a "aaaa">]><urlset><url><loc>&a;</loc></url></urlset>',
        "\x1f\x8b",
    ],
)
async def test_a_sitemap_that_cannot_be_read_fails_the_run(harvest: Harvest, bomb: str):
    async with served() as web:
        web.pages["/sitemap.xml"] = Response(bomb.encode("latin-1"))
        source = await harvest.source("web", {"start": web.at("/sitemap.xml"), "pause_s": 0})
        await harvest.ask(source)
        await harvest.work()
        health = (await harvest.row(source)).health
        assert not health["ok"]
        assert "sitemap" in health["message"]


async def test_a_site_whose_robots_cannot_be_read_is_not_read(harvest: Harvest):
    async with served() as web:
        web.pages |= {"/robots.txt": Response(status_code=500), "/": linked("/a"), "/a": linked()}
        source = await harvest.source("web", {"start": web.at(), "method": "crawl", "pause_s": 0})
        await harvest.ask(source)
        await harvest.work()
        assert "500" in (await harvest.row(source)).health["message"]
        assert web.paths == ["/robots.txt"]
