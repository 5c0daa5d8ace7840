"""The graph over HTTP, in the dashboard and on the command line: what is near what, and who may know."""

import itertools
import re

import pytest
from consumers.knowledge import ids
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.bases.tenants import delete_tenant
from consumers.knowledge.documents.documents import register
from consumers.knowledge.graph.storing import store_graph
from consumers.knowledge.language.extraction import Named, Related
from consumers.knowledge.tables.graph import EntityAlias
from consumers.knowledge.tables.knowledge import Chunk, table_of
from contracts.knowledge import ChunkKind
from pipeline.http.dashboard.constellations import drawn
from pipeline.http.graphs import Edge, Neighbourhood, Node
from pipeline.store import insert_new, people
from pipeline.store.keys import Capability

from tests.support.library import file

CHAIN = ("Core Pool", "Default Queue", "Job", "Payload", "Scope")
HOSTILE = '<script>alert("1")</script>'


@pytest.fixture
async def kb(database):
    """A base of tenant 7 whose one document names a chain of things, and something hostile beside the first."""
    async with database.transaction() as sql:
        base = await ensure_base(sql, 7, "notes")
        found = await register(sql, base, file("/notes/guide.md"))
        chunk = Chunk(
            id="c1",
            knowledge_id=found.knowledge_id,
            knowledge_base_id=base.id,
            tenant_id=7,
            attempt=1,
            kind=ChunkKind.TEXT,
            position=0,
            text="-",
            heading=[],
            start=0,
            end=1,
        )
        sql.add(chunk)
        await sql.flush()
        pairs = [*itertools.pairwise(CHAIN), (HOSTILE, CHAIN[0])]
        await store_graph(
            sql,
            base.id,
            chunk,
            [Named(name, "name", at) for at, name in enumerate((*CHAIN, HOSTILE), 1)],
            [Related(one, other, "uses", f"{one} uses {other}.") for one, other in pairs],
        )
    return base


@pytest.fixture
async def reader(client, key):
    client.headers.update(await key(Capability.KNOWLEDGE_READ, tenant=7))
    return client


def path(kb, rest=""):
    return f"/api/v1/knowledge-bases/{kb.id}/graph{rest}"


def names(said):
    return [node["name"] for node in said["nodes"]]


async def test_what_is_near_a_thing_is_found_by_its_name_however_written(reader, kb):
    said = (await reader.get(path(kb), params={"entity": "core  POOL"})).json()
    assert (names(said)[0], set(names(said))) == ("Core Pool", {"Core Pool", "Default Queue", HOSTILE})
    assert {(edge["kind"], edge["evidence"]) for edge in said["edges"]} == {
        ("uses", "Core Pool uses Default Queue."),
        ("uses", f"{HOSTILE} uses Core Pool."),
    }
    by_id = await reader.get(path(kb), params={"entity": ids.entity(kb.id, "Core Pool")})
    assert by_id.json() == said


async def test_how_far_and_how_much_is_looked_for_is_bounded(reader, kb):
    for depth, distances in ((1, [0, 1, 1]), (2, [0, 1, 1, 2]), (3, [0, 1, 1, 2, 3])):
        said = (await reader.get(path(kb), params={"entity": "Core Pool", "depth": depth})).json()
        assert ([node["distance"] for node in said["nodes"]], said["truncated"]) == (distances, False)
    few = (await reader.get(path(kb), params={"entity": "Core Pool", "depth": 3, "limit": 2})).json()
    assert (len(few["nodes"]), few["truncated"]) == (2, True)
    for wrong in ({"depth": 4}, {"limit": 201}, {"depth": 0}):
        assert (await reader.get(path(kb), params={"entity": "Job", **wrong})).status_code == 422


async def test_without_a_thing_the_graph_is_that_of_what_is_named_most(reader, kb):
    said = (await reader.get(path(kb))).json()
    assert len(said["nodes"]) == 6


async def test_things_are_listed_by_name_and_found_by_part_of_it(reader, kb):
    first = (await reader.get(path(kb, "/entities"), params={"page_size": 4})).json()
    rest = (
        await reader.get(path(kb, "/entities"), params={"page_size": 4, "cursor": first["next_cursor"]})
    ).json()
    found = [one["name"] for one in (*first["entities"], *rest["entities"])]
    assert found == sorted((*CHAIN, HOSTILE))
    some = (await reader.get(path(kb, "/entities"), params={"contains": "QUE"})).json()
    assert [one["name"] for one in some["entities"]] == ["Default Queue"]


async def test_a_thing_says_what_is_said_of_it_and_where_it_is_named(reader, kb):
    ident = ids.entity(kb.id, "Default Queue")
    said = (await reader.get(path(kb, f"/entities/{ident}"))).json()
    assert (said["name"], said["mentions"]) == ("Default Queue", 2)
    assert {(one["other"]["name"], one["outwards"]) for one in said["relations"]} == {
        ("Core Pool", False),
        ("Job", True),
    }
    ((place,),) = (said["mentioned"],)
    assert (place["chunk_id"], place["source"]) == ("c1", "/notes/guide.md")


async def test_a_thing_is_found_by_its_other_names(reader, kb, database):
    ident = ids.entity(kb.id, "Default Queue")
    alias = {
        "id": ids.entity(kb.id, "Standard Line"),
        "knowledge_base_id": kb.id,
        "entity_id": ident,
        "name": "Standard Line",
        "why": "acronym",
    }
    async with database.transaction() as sql:
        await insert_new(sql, table_of(EntityAlias), [alias])
    said = (await reader.get(path(kb), params={"entity": "standard line"})).json()
    assert names(said)[0] == "Default Queue"
    some = (await reader.get(path(kb, "/entities"), params={"contains": "STANDARD"})).json()
    assert [one["id"] for one in some["entities"]] == [ident]
    assert (await reader.get(path(kb, f"/entities/{ident}"))).json()["aliases"] == ["Standard Line"]


async def test_another_tenants_graph_is_as_one_that_is_not_there(client, key, kb):
    headers = await key(Capability.KNOWLEDGE_READ, tenant=1)
    ident = ids.entity(kb.id, "Job")
    for rest in ("?entity=Job", "/entities", f"/entities/{ident}"):
        assert (await client.get(path(kb, rest), headers=headers)).status_code == 404
    for rest in ("?entity=nothing", "/entities/nothing"):
        answer = await client.get(path(kb, rest), headers=await key(Capability.KNOWLEDGE_READ, tenant=7))
        assert (answer.status_code, answer.json()["code"]) == (404, "entity_not_found")


async def test_an_entity_of_another_base_is_not_there(reader, kb, database):
    async with database.transaction() as sql:
        other = await ensure_base(sql, 7, "other")
    ident = ids.entity(kb.id, "Job")
    assert (await reader.get(path(other, f"/entities/{ident}"))).status_code == 404
    assert (await reader.get(path(other), params={"entity": ident})).status_code == 404


@pytest.fixture
async def visitor(client, database):
    async with database.transaction() as sql:
        await people.add_new(sql, "anna", people.hashed("correct horse"))
    answer = await client.post("/sign-in", data={"name": "anna", "password": "correct horse"})
    assert answer.status_code == 303, answer.text
    return client


async def test_the_dashboard_draws_what_is_near_in_both_languages(visitor, kb):
    ident = ids.entity(kb.id, "Core Pool")
    for language, said in (("en", "What is said"), ("ru", "Что сказано")):
        headers = {"accept-language": language}
        page = await visitor.get(f"/graph/{kb.id}/{ident}?depth=3", headers=headers)
        assert page.status_code == 200
        assert said in page.text
        assert len(re.findall("<circle ", page.text)) >= 5
        assert "<script>alert" not in page.text
        assert 'style="' not in page.text.split("<main")[1]
    listed = await visitor.get(f"/graph/{kb.id}?find=queue")
    assert "Default Queue" in listed.text
    assert "Payload" not in listed.text


async def test_a_graph_that_is_not_there_is_a_page_that_says_so(visitor, kb):
    for url in ("/graph/nothing", f"/graph/{kb.id}/nothing", f"/graph/{kb.id}/x?depth=9"):
        assert (await visitor.get(url)).status_code == 404


async def test_the_graphs_and_wikis_of_a_deleted_tenant_are_not_shown(visitor, kb, database):
    pages = [f"/graph/{kb.id}", f"/wiki/{kb.id}"]
    assert [(await visitor.get(page)).status_code for page in pages] == [200, 200]
    async with database.transaction() as sql:
        await delete_tenant(sql, 7)
    assert [(await visitor.get(page)).status_code for page in pages] == [404, 404]


def test_no_two_names_of_a_picture_stand_on_each_other():
    nodes = [Node("0", "middle", "name", 9)] + [Node(f"{n}", f"n{n}", "name", n, 1) for n in range(1, 40)]
    picture = drawn(Neighbourhood(nodes, [Edge("0", node.id, "uses", 1) for node in nodes[1:]]))
    places = [(star.x, star.y) for star in picture.stars]
    near = [
        ((x - u) ** 2 + (y - v) ** 2) ** 0.5 for at, (x, y) in enumerate(places) for u, v in places[at + 1 :]
    ]
    assert min(near) > 14
    right, bottom = picture.left + picture.width, picture.top + picture.height
    assert all(picture.left <= x <= right and picture.top <= y <= bottom for x, y in places)
    assert drawn(Neighbourhood([], [])).stars == ()
