"""From what an index finds to what a reader gets: ranks fused, entries folded into passages, documents mixed.

A base is searched by meaning (vectors) and by words at once. Both give ranks, never comparable scores, so the
lists are fused by reciprocal rank. What is found is an *entry*; what a reader wants is a *passage*: entries that
stand for a chunk (its questions) or for a document (its summary) count for what they stand for.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from consumers.knowledge.search.store import EntryKind, Hit

RANK_DEPTH: Final = 64  # of each ranking; deeper ranks add less than the noise between neighbours
RANK_DAMPING: Final = 60  # the usual constant of rank fusion: how little the first place stands out
# What was written about a text, beside 1 for its own words. Measured: it breaks ties well and decides badly.
HEARSAY: Final = {EntryKind.QUESTION: 0.2, EntryKind.SUMMARY: 0.2, EntryKind.WIKI: 0.5}
AGAIN: Final = 0.5
"""Worth of a passage for each one above it of the same document, or of the same words elsewhere."""
PASSAGE_CHARS: Final = 1200  # shown, when chunks of the same section lie around the one found


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry as one ranking names it; `chunk_id` as in `IndexEntry`. The same words have the same digest."""

    knowledge_id: str
    chunk_id: str | None
    kind: EntryKind
    digest: int | None = None
    closeness: float = 0.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage and how well it did over all rankings."""

    knowledge_id: str
    chunk_id: str | None
    score: float
    kinds: tuple[EntryKind, ...]
    digest: int | None = None  # None: unknown, because only a question or a summary was found
    closeness: float = 0.0  # of its own words; what was written about it says less


def rank(rankings: Iterable[Sequence[Candidate]], limit: int) -> list[Ranked]:
    """Fuse rankings of entries, each best first, into the best passages of a base.

    Entries are ranked among their like: beside a short question a query looks closer to every other question
    than to the passage that answers it.
    """
    lists = [one for ranking in rankings for one in _by_sort(ranking)]
    scores: defaultdict[tuple[str, str | None], float] = defaultdict(float)
    kinds: defaultdict[tuple[str, str | None], dict[EntryKind, None]] = defaultdict(dict)
    digests: dict[tuple[str, str | None], int | None] = {}
    closeness: defaultdict[tuple[str, str | None], float] = defaultdict(float)
    for one in lists:
        voted: set[tuple[str, str | None]] = set()
        for place, found in enumerate(one[:RANK_DEPTH], start=1):
            key = (found.knowledge_id, found.chunk_id)
            kinds[key][found.kind] = None
            if found.kind not in HEARSAY:
                digests[key] = found.digest
            if found.kind not in HEARSAY or found.chunk_id is None:
                closeness[key] = max(closeness[key], found.closeness)
            if key not in voted:
                voted.add(key)
                scores[key] += _weight(found.kind) * (RANK_DAMPING + 1) / (RANK_DAMPING + place)
    full = sum(_weight(one[0].kind) for one in lists)
    ranked = [
        Ranked(*key, score / full, tuple(kinds[key]), digests.get(key), closeness[key])
        for key, score in scores.items()
    ]
    return _spread(_lend(sorted(ranked, key=_worth)), limit)


def _by_sort(ranking: Sequence[Candidate]) -> list[list[Candidate]]:
    sorts: defaultdict[str, list[Candidate]] = defaultdict(list)
    for found in ranking:
        sorts[found.kind if found.kind in HEARSAY else EntryKind.TEXT].append(found)
    return list(sorts.values())


def _weight(kind: EntryKind) -> float:
    return HEARSAY.get(kind, 1.0)


def _worth(passage: Ranked) -> tuple[float, str, str]:
    return -passage.score, passage.knowledge_id, passage.chunk_id or ""  # ties alike on every run


def _lend(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Give what the summary of a document earned to its best passage; alone, the summary stands for itself."""
    earned = {one.knowledge_id: one for one in ranked if one.chunk_id is None}
    passages = []
    for one in ranked:
        if one.chunk_id is not None:
            summary = earned.pop(one.knowledge_id, None)
            passages.append(one if summary is None else _joined(one, summary))
    return sorted([*passages, *earned.values()], key=_worth)


def _joined(passage: Ranked, summary: Ranked) -> Ranked:
    return replace(passage, score=passage.score + summary.score, kinds=(*passage.kinds, *summary.kinds))


def _spread(ranked: Sequence[Ranked], limit: int) -> list[Ranked]:
    """Mix the page: no document fills it, and a copy of a document does not repeat it."""
    seen: Counter[str | int] = Counter()
    worth = []
    for one in ranked:
        marks = [mark for mark in (one.knowledge_id, one.digest) if mark is not None]
        worth.append((one.score * AGAIN ** max(seen[mark] for mark in marks), one))
        seen.update(marks)
    page = sorted(worth, key=lambda pair: (-pair[0], *_worth(pair[1])))[:limit]
    return [replace(one, score=score) for score, one in page]


@dataclass(frozen=True, slots=True)
class Place:
    """A chunk, or a summary, where it stands in its document."""

    kb_id: str
    knowledge_id: str
    chunk_id: str | None
    position: int
    heading: str
    text: str


def passages(
    ranked: Iterable[Ranked], chunks: Mapping[str, Sequence[Place]], summaries: Mapping[str, Sequence[Place]]
) -> list[Hit]:
    """What to show for each ranked passage; `chunks` gives, by chunk id, the chunk with its neighbours.

    A passage that an earlier one already shows is left out, as is one whose chunk has gone.
    """
    shown: set[str] = set()
    hits = []
    for one in ranked:
        around = summaries.get(one.knowledge_id, ()) if one.chunk_id is None else chunks.get(one.chunk_id, ())
        unseen = [place for place in around if place.chunk_id not in shown]
        found = next((place for place in unseen if place.chunk_id == one.chunk_id), None)
        if found is None:
            continue
        places = _section(found, unseen)
        shown.update(place.chunk_id for place in places if place.chunk_id)
        hits.append(
            Hit(
                knowledge_id=found.knowledge_id,
                kb_id=found.kb_id,
                chunk_id=found.chunk_id,
                text="\n\n".join(place.text for place in places),
                heading=found.heading,
                position=found.position,
                score=one.score,
                kinds=one.kinds,
                closeness=one.closeness,
            )
        )
    return hits


def _section(found: Place, places: Iterable[Place]) -> list[Place]:
    """The chunk with what follows and precedes it under the same heading, as far as there is room, in order."""
    chosen, room = [found], PASSAGE_CHARS - len(found.text)
    for place in sorted(places, key=lambda place: -place.position):  # what follows says more
        if place is not found and place.heading == found.heading and len(place.text) <= room:
            chosen.append(place)
            room -= len(place.text)
    return sorted(chosen, key=lambda place: place.position)
