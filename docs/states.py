"""Draw the life of a job from `TRANSITIONS`."""

from collections import defaultdict
from collections.abc import Iterable

from contracts.states import JobState, Transition


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
