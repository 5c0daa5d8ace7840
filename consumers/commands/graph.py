"""`streamlane graph`: what documents name, listed and shown."""

from dataclasses import asdict

from rich.markup import escape

from consumers.commands.ask import base_named
from consumers.commands.session import session
from consumers.commands.terminal import FAILED, OK, complain, emit, out, shown, table
from consumers.knowledge.graph import reading


async def list_entities(kb_name: str, contains: str, limit: int, as_json: bool, *, tenant: int) -> int:
    """Print what is named most; return the exit code."""
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.database.read() as sql:
            found = await reading.most_named(sql, kb.id, limit, contains=contains)
    if as_json:
        names = ("id", "name", "kind", "mentions")
        emit({"kb": kb_name, "entities": [{name: getattr(one, name) for name in names} for one in found]})
    elif found:
        table(("id", "name", "kind", "named"), [(one.id, one.name, one.kind, one.mentions) for one in found])
    else:
        out.print("nothing is named (yet)")
    return OK


async def show(entity: str, kb_name: str, depth: int, limit: int, as_json: bool, *, tenant: int) -> int:
    """Print what is around something; return the exit code."""
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.database.read() as sql:
            ident = await reading.entity_id(sql, kb.id, entity)
            known = await reading.detail(sql, kb.id, ident) if ident else None
            if ident is None or known is None:
                said = f"no document of {kb_name!r} names {entity!r}; `streamlane graph list` shows what they name"
                complain(said, "not_found", as_json=as_json)
                return FAILED
            near = await reading.around(sql, kb.id, [ident], depth, limit)
    if as_json:
        emit(
            {
                "kb": kb_name,
                "entity": {**asdict(known.node), "aliases": list(known.aliases)},
                "nodes": [asdict(one) for one in near.nodes],
                "edges": [asdict(one) for one in near.edges],
                "truncated": near.cut,
                "relations": [asdict(one) for one in known.facts],
                "mentioned": [asdict(one) for one in known.places],
            }
        )
        return OK
    out.print(
        f"[bold]{escape(shown(known.node.name))}[/bold] ({known.node.kind}), named {known.node.mentions} times"
    )
    if known.aliases:
        out.print(f"also {shown(', '.join(known.aliases))}", markup=False)
    names = {one.id: shown(one.name, 60) for one in near.nodes}
    for edge in near.edges:
        out.print(f"{names[edge.source]} —{edge.kind}→ {names[edge.target]} ({edge.weight})", markup=False)
        out.print(f"   {shown(edge.evidence, 200)}", markup=False)
    for source in dict.fromkeys(one.source for one in known.places):
        out.print(f"in {shown(source)}", markup=False)
    if near.cut:
        out.print("there is more: raise --limit")
    return OK
