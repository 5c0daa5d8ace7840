"""The commands that say who may use the API and the dashboard: their arguments and what is said of them."""

from typing import Annotated

import typer

from consumers.commands.operating import AsJson
from consumers.commands.terminal import named, run
from contracts.rights import Capability

keys = typer.Typer(no_args_is_help=True, help="Keys with which programs use the API.")
admins = typer.Typer(no_args_is_help=True, help="People who may sign in to the dashboard.")

AdminName = Annotated[str, typer.Argument(metavar="NAME", help="Who.", callback=named)]


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Option(help="What it is for.", callback=named)],
    capability: Annotated[
        list[str],
        typer.Option(help=f"What it may do; give it once for each. There are: {', '.join(Capability)}."),
    ],
    tenant: Annotated[
        int | None, typer.Option(min=1, max=2**63 - 1, help="Confine it to this tenant.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it: nobody can find it out later."""
    from consumers.commands.keys import create

    run(create(name, capability, tenant, as_json), as_json=as_json)


@keys.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List keys, without their secrets."""
    from consumers.commands.keys import list_keys

    run(list_keys(as_json), as_json=as_json)


@keys.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(metavar="ID|PREFIX|NAME", help="Which.")], as_json: AsJson = False
) -> None:
    """Let a key open nothing any more, at once."""
    from consumers.commands.keys import revoke

    run(revoke(key, as_json), as_json=as_json)


@admins.command("add")
def add_admin(name: AdminName, as_json: AsJson = False) -> None:
    """Add a person, or give one a new password. It is asked for; with --json one is made and printed, once."""
    from consumers.commands.keys import add_admin, ask_password

    run(add_admin(name, None if as_json else ask_password(), as_json), as_json=as_json)


@admins.command("list")
def list_admins(as_json: AsJson = False) -> None:
    """List who may sign in."""
    from consumers.commands.keys import list_admins

    run(list_admins(as_json), as_json=as_json)


@admins.command("remove")
def remove_admin(name: AdminName, as_json: AsJson = False) -> None:
    """Remove a person and end their sessions."""
    from consumers.commands.keys import remove_admin

    run(remove_admin(name, as_json), as_json=as_json)
