import pytest
from contracts.fences import COVERAGE, EVERYTHING, Coverage, coverage
from contracts.jobs import payload_types
from contracts.payloads import documents  # noqa: F401 - registers the types that the table names


def test_a_knowledge_cancel_covers_its_seven_types_and_no_other() -> None:
    covered = {t for t in payload_types() if coverage("knowledge").covers(t)}
    assert covered == {
        "document:process",
        "manual:process",
        "image:multimodal",
        "knowledge:post_process",
        "question:generation",
        "summary:generation",
        "chunk:extract",
    }


def test_a_knowledge_base_cancel_spares_the_jobs_that_delete_it() -> None:
    spared = {t for t in payload_types() if not coverage("knowledge_base").covers(t)}
    assert spared == {"kb:delete", "index:delete"}


@pytest.mark.parametrize("kind", ["tenant", "session", "data_source", "campaign", "never-heard-of"])
def test_any_other_scope_is_covered_whole(kind: str) -> None:
    assert coverage(kind) == EVERYTHING
    assert coverage(kind).covers("anything:at_all")


def test_asking_for_types_narrows_a_cancel_and_never_widens_it() -> None:
    narrowed = coverage("knowledge", frozenset({"summary:generation", "kb:delete"}))
    assert narrowed == Coverage(only=frozenset({"summary:generation"}))
    assert not coverage("knowledge_base", frozenset({"kb:delete"})).covers("kb:delete")


def test_narrowing_to_nothing_covers_nothing() -> None:
    assert not coverage("tenant", frozenset()).covers("document:process")


def test_every_type_that_the_table_names_exists() -> None:
    named = {t for c in COVERAGE.values() for t in (c.only or frozenset()) | c.excluding}
    assert named <= set(payload_types())
