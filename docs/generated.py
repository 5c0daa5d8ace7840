"""Write into the documentation what the code says of itself: `just docs`."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from consumers.lanes import HANDLERS
from contracts.states import TRANSITIONS
from docs import job_types, states


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between `<!-- name -->` and `<!-- /name -->` of a page."""

    page: Path
    name: str
    render: Callable[[], str]

    def renewed(self, text: str) -> str:
        """Return the text of the page with this block written anew. Raises ValueError where it has none."""
        marked = rf"(?<=<!-- {self.name} -->\n).*?(?=<!-- /{self.name} -->)"
        renewed, found = re.subn(marked, lambda _: self.render(), text, flags=re.DOTALL)
        if found != 1:
            raise ValueError(f"{self.page.name} has {found} blocks named {self.name}")
        return renewed


def _page(name: str) -> Path:
    return Path(__file__).with_name(name)


BLOCKS: Final = (
    Block(_page("architecture.md"), "states", lambda: states.render(TRANSITIONS)),
    Block(_page("jobs.md"), "types", lambda: job_types.render(handler.payload for handler in HANDLERS)),
)


def main() -> int:
    """Write each block anew."""
    for block in BLOCKS:
        block.page.write_text(block.renewed(block.page.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
