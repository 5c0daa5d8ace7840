"""The commands of memory: their arguments and what is said of them."""

from typing import Annotated

import typer

from consumers.commands.operating import AsJson, OfTenant, Yes
from consumers.commands.terminal import needs, run
from consumers.extras import KNOWLEDGE
from contracts.identity import check_name
from contracts.memory import MemoryKind

memory = typer.Typer(no_args_is_help=True, help="What is remembered of people: see it, change it, forget it.")


def _named(name: str | None) -> str | None:
    try:
        return None if name is None else check_name(name, "the name of a person")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Person = Annotated[str, typer.Argument(metavar="PERSON", help="Your own name for somebody.", callback=_named)]
SomePerson = Annotated[
    str | None,
    typer.Argument(metavar="[PERSON]", help="Your own name for somebody; none: all.", callback=_named),
]
ItemId = Annotated[str, typer.Argument(metavar="ID", help="As `memory list PERSON` says.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="A sentence.")]
Kind = Annotated[MemoryKind, typer.Option(help="What it is.")]
Topic = Annotated[str, typer.Option(help="In a word.")]


@memory.command("list")
def list_memory(person: SomePerson = None, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """List people, or what is remembered of one."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.memory import list_items, list_people

    run(
        list_items(person, as_json, tenant=tenant) if person else list_people(as_json, tenant=tenant),
        as_json=as_json,
    )


@memory.command("show")
def show(person: Person, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Show who a person is, as whoever answers them is told."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.memory import show

    run(show(person, as_json, tenant=tenant), as_json=as_json)


@memory.command("add")
def add(
    person: Person,
    text: Text,
    kind: Kind = MemoryKind.FACT,
    topic: Topic = "note",
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Remember something of a person."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.memory import add

    run(add(person, text, kind, topic, as_json, tenant=tenant), as_json=as_json)


@memory.command("edit")
def edit(person: Person, item: ItemId, text: Text, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Write a remembered thing anew."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.memory import edit

    run(edit(person, item, text, as_json, tenant=tenant), as_json=as_json)


@memory.command("delete")
def delete(person: Person, item: ItemId, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Delete a remembered thing; it is not read again."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.memory import delete

    run(delete(person, item, as_json, tenant=tenant), as_json=as_json)


@memory.command("forget")
def forget(person: Person, yes: Yes = False, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Forget all that is remembered of a person."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.memory import forget

    run(forget(person, as_json, yes=yes, tenant=tenant), as_json=as_json)


@memory.command("on")
def switch_on(person: SomePerson = None, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Remember people, or one who was switched off; nothing is read before `set write_mode auto`."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.memory import switch

    run(switch(person, as_json, on=True, tenant=tenant), as_json=as_json)


@memory.command("off")
def switch_off(person: SomePerson = None, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Neither read nor recall anything, of all or of one person; what is remembered stays."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.memory import switch

    run(switch(person, as_json, on=False, tenant=tenant), as_json=as_json)


@memory.command("set")
def set_wish(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="write_mode, delay_s, min_interval_s, items; none: show all."),
    ] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="What it is to be.")] = None,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Show or change how memory is written."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.memory import set_wish

    run(set_wish(name, value, as_json, tenant=tenant), as_json=as_json)
