import uuid

import pytest
from contracts.identity import check_name, derive_id, new_id
from hypothesis import given
from hypothesis import strategies as st


def test_a_new_id_is_a_uuid_of_version_7_and_a_legal_name() -> None:
    made = uuid.UUID(new_id())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert check_name(str(made), "job id") == str(made)


def test_new_ids_differ_and_begin_with_their_time() -> None:
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    times = [i[:13] for i in ids]
    assert times == sorted(times)


@given(st.lists(st.text() | st.integers(), min_size=1))
def test_the_same_parts_give_the_same_legal_id_for_ever(parts: list[object]) -> None:
    assert derive_id(*parts) == derive_id(*parts) == check_name(derive_id(*parts), "job id")


def test_a_derived_id_does_not_change_between_releases() -> None:
    assert derive_id("parent", 1, 0) == "9f9d762efc656e6f8ccf22918be68fcc"


def test_parts_are_kept_apart() -> None:
    assert derive_id("ab", "c") != derive_id("a", "bc")
    assert derive_id("a") != derive_id("a", "")


@pytest.mark.parametrize("name", ["a", "A-Z_0.9:x", "x" * 128])
def test_a_legal_name_is_returned(name: str) -> None:
    assert check_name(name, "unique key") == name


@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "ключ", "a/b", "a\n", "a\x00", "\ud800"])
def test_another_name_is_refused_with_what_it_was_for(name: str) -> None:
    with pytest.raises(ValueError, match="unique key must be 1 to 128"):
        check_name(name, "unique key")
