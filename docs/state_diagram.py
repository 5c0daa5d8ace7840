"""Draw the life of a job in docs/architecture.md from `TRANSITIONS`: `just docs`."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from contracts.states import TRANSITIONS, JobState, Transition

PAGE = Path(__file__).with_name("architecture.md")
BLOCK = re.compile(r"(?<=<!-- states -->\n).*?(?=<!-- /states -->)", re.DOTALL)


def render(transitions: Iterable[Transition]) -> str:
    """A Mermaid diagram with one arrow a pair of states, and a table that says why each move happens."""
    arrows: dict[tuple[JobState | None, JobState | None], list[str]] = defaultdict(list)
    rows = []
    for move in transitions:
        verbs = arrows[move.source, move.target]
        verbs += [move.by] if move.by not in verbs else []
        rows.append(f"| {move.source or 'new'} | {move.target or 'gone'} | `{move.by}` | {move.note} |")
    drawn = [
        f"    {source or '[*]'} --> {target or '[*]'}: {', '.join(verbs)}"
        for (source, target), verbs in arrows.items()
    ]
    diagram = ["```mermaid", "stateDiagram-v2", *drawn, "```"]
    return "\n".join([*diagram, "", "| from | to | by | when |", "|---|---|---|---|", *rows, ""])


def page(text: str) -> str:
    """`text` with its marked block drawn anew."""
    return BLOCK.sub(lambda _: render(TRANSITIONS), text)


def main() -> int:
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
