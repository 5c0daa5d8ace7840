"""The commands that say what there is to fill and whose it is: their arguments."""

from typing import Annotated

import typer

from consumers.commands.keeping import kb
from consumers.commands.operating import AsJson, OfTenant, Yes
from consumers.commands.terminal import named, needs, run
from consumers.extras import KNOWLEDGE

tenants = typer.Typer(no_args_is_help=True, help="Tenants: whose the knowledge bases are.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is called.", callback=named)]
Settings = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="A setting as `kb show` names it, such as question_count=5."),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", metavar="NAME[=WHEN]", help="A tag of its list; give it once for each there is to be."
    ),
]
TenantId = Annotated[int, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="Which.")]


@kb.command("create")
def create_base(
    name: Name,
    settings: Settings = None,
    tag: Tags = None,
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Make a base, with what it wants other than usual."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.setting_up import create

    run(create(name, settings or [], tag, tenant, as_json), as_json=as_json)


@kb.command("list")
def list_bases(tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """List the bases of a tenant."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.setting_up import list_all

    run(list_all(tenant, as_json), as_json=as_json)


@kb.command("show")
def show_base(name: Name, tenant: OfTenant = 1, as_json: AsJson = False) -> None:
    """Show what a base wants and what is in it."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.setting_up import show

    run(show(name, tenant, as_json), as_json=as_json)


@kb.command("set")
def set_base(
    name: Name,
    settings: Settings = None,
    tag: Tags = None,
    rename: Annotated[str, typer.Option(help="What it is to be called.")] = "",
    tenant: OfTenant = 1,
    as_json: AsJson = False,
) -> None:
    """Change what a base wants. For a stage that is switched off no document waits any longer."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.setting_up import change

    run(change(name, settings or [], tag, rename, tenant, as_json=as_json), as_json=as_json)


@tenants.command("create")
def create_tenant(
    name: Name,
    ident: Annotated[
        int | None, typer.Option("--id", min=1, max=2**53, help="Its number; the next one unless told.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a tenant."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.tenants import create

    run(create(name, ident, as_json), as_json=as_json)


@tenants.command("list")
def list_tenants(as_json: AsJson = False) -> None:
    """List tenants, deleted ones too."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.tenants import list_all

    run(list_all(as_json), as_json=as_json)


@tenants.command("delete")
def delete_tenant(tenant: TenantId, yes: Yes = False, as_json: AsJson = False) -> None:
    """Let nothing more be done for a tenant. What it has stays, and `restore` takes it back."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.tenants import delete

    run(delete(tenant, yes=yes, as_json=as_json), as_json=as_json)


@tenants.command("restore")
def restore_tenant(tenant: TenantId, as_json: AsJson = False) -> None:
    """Take a deleted tenant back; what was under way for it is done anew."""
    needs(KNOWLEDGE, as_json=as_json)
    from consumers.commands.tenants import restore

    run(restore(tenant, as_json), as_json=as_json)
