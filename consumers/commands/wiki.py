"""`streamlane wiki`: the pages of a base, listed, shown and exported."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.markup import escape

from consumers.commands.ask import base_named
from consumers.commands.session import session
from consumers.commands.terminal import FAILED, OK, emit, out, shown
from consumers.knowledge.bases.wiki_lane import switch
from consumers.knowledge.wiki.showing import MADE_BY, exported, pages_of, shown_page
from pipeline.errors import ConfigurationError

NONE: Final = "no pages yet: `streamlane wiki on` lets a base write them"
MARK: Final = ".streamlane-wiki"
"""A file that says whose pages are in its folder."""
HEAD: Final = 65_536  # bytes in which a file says who made it


async def list_pages(kb_name: str, as_json: bool, *, tenant: int) -> int:
    """Print the pages of a base; return the exit code."""
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.database.read() as sql:
            pages = await pages_of(sql, kb.id)
    if as_json:
        names = ("slug", "title", "kind", "folder", "lead", "version", "updated_at")
        emit({"kb": kb_name, "pages": [{name: getattr(page, name) for name in names} for page in pages]})
        return OK
    for page in pages:
        where = f"{page.folder}/" if page.folder else ""
        lead = f" — {escape(shown(page.lead, 100))}" if page.lead else ""
        out.print(f"[bold]{escape(shown(where + page.slug))}[/bold]  {escape(shown(page.title, 100))}{lead}")
    if not pages:
        out.print(NONE)
    return OK


async def switch_wiki(kb_name: str, as_json: bool, *, on: bool, tenant: int) -> int:
    """Switch the wiki of a base on or off; return the exit code."""
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.outbox.transaction() as sql:
            asked = await switch(sql, kb, on=on)
    if as_json:
        emit({"kb": kb_name, "wiki": on, "documents": asked})
    elif on:
        out.print(f"{asked} documents are to be written about; a worker does it (`streamlane worker wiki`)")
    else:
        out.print("no document waits for its pages any longer; those there are stay")
    return OK


async def show_page(slug: str, kb_name: str, as_json: bool, *, tenant: int) -> int:
    """Print a page, named as the list names it or by its slug alone; return the exit code."""
    folder, _, name = slug.rpartition("/")
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.database.read() as sql:
            found = await shown_page(sql, kb.id, name)
    if found is None or (folder and found.page.folder != folder):
        raise ConfigurationError(
            f"no page {slug!r} in {kb_name!r}: `streamlane wiki list` names those there are"
        )
    if as_json:
        emit(
            {
                "kb": kb_name,
                "slug": found.page.slug,
                "title": found.page.title,
                "kind": found.page.kind,
                "method": found.page.method,
                "version": found.page.version,
                "body": found.body,
                "sources": [{"knowledge_id": one.knowledge_id, "path": one.source} for one in found.sources],
            }
        )
    else:
        out.print(found.body.rstrip(), markup=False, highlight=False, soft_wrap=True)
    return OK


async def export_pages(folder: Path | None, kb_name: str, as_json: bool, *, tenant: int) -> int:
    """Write the pages of a base as Markdown files; files of an earlier export that are no pages any more go."""
    folder = folder or Path("wiki-" + re.sub(r"[^\w-]+", "-", kb_name))
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.database.read() as sql:
            files = await exported(sql, kb.id)
    try:
        removed = await asyncio.to_thread(_write, folder, kb.id, files)
    except OSError as error:
        raise ConfigurationError(f"cannot write to {folder}: {error.strerror or error}") from None
    if as_json:
        emit({"kb": kb_name, "folder": str(folder), "pages": sorted(files), "removed": removed})
    else:
        where = f"are in {folder}: begin with index.md"
        said = f"{len(files)} pages of {kb_name!r} {where}" if files else NONE
        gone = f"; {removed} that are none any more were removed" if removed else ""
        out.print(said + gone, markup=False)
    return OK if files else FAILED


def _write(folder: Path, kb_id: str, files: Mapping[str, str]) -> int:
    """Write files, each whole or not at all; return how many old ones were removed. Raises ConfigurationError where the
    pages of another base are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root, mark = folder.resolve(), folder / MARK
    if mark.exists() and mark.read_text(errors="replace").strip() != kb_id:
        raise ConfigurationError(f"the pages of another base are in {folder}: name another folder")
    mark.write_text(f"{kb_id}\n")
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.parent.resolve().is_relative_to(root):  # a link in the folder may lead out of it
            part = target.with_name(f".{target.name[:100]}.part")
            part.write_bytes(text.encode())
            part.replace(target)
    wanted = {root / path for path in files}
    others = {one.parent for one in root.rglob(MARK)} - {
        root
    }  # a base was exported into a folder of this one
    old = [
        one
        for one in root.rglob("*.md")
        if one not in wanted and others.isdisjoint(one.parents) and one.is_file() and _ours(one)
    ]
    for gone in old:
        gone.unlink()
        if gone.parent != root and not any(gone.parent.iterdir()):
            gone.parent.rmdir()
    return len(old)


def _ours(path: Path) -> bool:
    """Whether a file says that it was exported."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    return head.startswith(b"---\n") and f"\n{MADE_BY}\n".encode() in head
