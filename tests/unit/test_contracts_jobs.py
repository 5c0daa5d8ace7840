from collections.abc import Mapping
from typing import Any, ClassVar

import contracts.jobs
import pytest
from contracts.jobs import Job, JobPayload, Scope, Unique, payload_type, payload_types
from pydantic import ValidationError


@pytest.fixture(autouse=True)
def own_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers here, no other test sees."""
    monkeypatch.setattr(contracts.jobs, "_REGISTRY", {})


def test_a_class_is_a_job_type_with_its_options() -> None:
    class Resize(JobPayload, type="image:resize", queue="default", max_retry=3, timeout=60):
        """Scale one image."""

        image_id: str

    assert payload_type("image:resize") is Resize
    assert payload_types() == {"image:resize": Resize}
    assert (Resize.spec.max_retry, Resize.spec.timeout, Resize.spec.retention) == (3, 60, 0)
    assert (Resize.spec.version, Resize.spec.queue) == (1, "default")


def test_a_type_that_says_nothing_of_retries_gets_25() -> None:
    class Plain(JobPayload, type="plain", queue="default"):
        pass

    assert (Plain.spec.max_retry, Plain.spec.timeout) == (25, None)


def test_a_class_without_options_is_a_common_part_and_no_type() -> None:
    class Common(JobPayload):
        tenant_id: int

    assert payload_types() == {}
    assert not hasattr(Common, "spec")


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(TypeError, match="unknown job option 'max_retries'; did you mean 'max_retry'"):
        type("Wrong", (JobPayload,), {}, type="wrong", queue="default", max_retries=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_retry": -1}, "max_retry must be 0 or more, got -1"),
        ({"max_retry": "3"}, "max_retry must be a whole number"),
        ({"timeout": 0}, r"timeout must be at least 0\.001 seconds"),
        ({"timeout": float("nan")}, r"timeout must be at least 0\.001 seconds"),
        ({"retention": -1}, "retention must be at least 0 seconds"),
        ({"version": 0}, "version must be 1 or more, got 0"),
        ({"type": ""}, "type must be 1 to 128 of"),
        ({"queue": "defalt"}, r"queue must be one of .*; did you mean 'default'\?"),
        ({"queue": "images"}, r"queue must be one of default, .*, agent, got 'images'$"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_with_its_class(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(TypeError, match=f"Wrong: {message}"):
        type("Wrong", (JobPayload,), {}, **({"type": "wrong", "queue": "default"} | options))
    assert payload_types() == {}


@pytest.mark.parametrize("options", [{"type": "half"}, {"queue": "default"}, {"max_retry": 1}])
def test_a_type_needs_its_name_and_its_queue(options: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="needs type=… and queue=…"):
        type("Half", (JobPayload,), {}, **options)


def test_two_classes_cannot_be_one_type() -> None:
    class First(JobPayload, type="same", queue="default"):
        pass

    with pytest.raises(TypeError, match=r"'same' is already .*First"):

        class Second(JobPayload, type="same", queue="default"):
            pass

    assert payload_type("same") is First


def test_a_payload_is_frozen_and_takes_no_unknown_field() -> None:
    class Small(JobPayload, type="small", queue="default"):
        name: str

    with pytest.raises(ValidationError, match="frozen"):
        Small(name="a").name = "b"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="extra"):
        Small.decode('{"name": "a", "other": 1}')


def test_only_what_was_set_is_written() -> None:
    class Sparse(JobPayload, type="sparse", queue="default"):
        name: str
        page: int = 1

    assert Sparse(name="a").encode() == '{"name":"a"}'
    assert Sparse.decode('{"name":"a"}') == Sparse(name="a", page=1)


def test_scopes_are_read_from_the_fields_that_name_them() -> None:
    class Scoped(JobPayload, type="scoped", queue="default"):
        scope_fields: ClassVar[Mapping[str, str]] = {"source_id": "knowledge_base"}
        tenant_id: int
        kb_id: str
        source_id: str
        knowledge_ids: tuple[str, ...] = ()
        session_id: str | None = None

    scoped = Scoped(tenant_id=7, kb_id="b", source_id="s", knowledge_ids=("k1", "k2", "k1"))
    assert set(map(str, scoped.scopes())) == {
        "tenant:7",
        "knowledge_base:b",
        "knowledge_base:s",
        "knowledge:k1",
        "knowledge:k2",
    }
    assert len(scoped.scopes()) == 5


def test_an_empty_id_belongs_to_nothing_and_tenant_zero_is_a_tenant() -> None:
    class Loose(JobPayload, type="loose", queue="default"):
        tenant_id: int = 0
        knowledge_id: str = ""

    assert Loose().scopes() == (Scope("tenant", "0"),)


@pytest.mark.parametrize("ident", ["", "a b", "x" * 129, "é"])
def test_a_scope_id_outside_the_alphabet_is_refused(ident: str) -> None:
    with pytest.raises(ValueError, match="knowledge scope id must be"):
        Scope("knowledge", ident)


def test_a_unique_key_is_checked() -> None:
    with pytest.raises(ValueError, match="unique key must be"):
        Unique("not a key")
    assert Unique("k").until == "done"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": ""}, "unique key must be 1 to 128 of"),
        ({"key": 7}, "unique key must be 1 to 128 of .*, got 7"),
        ({"until": "don"}, r"until must be one of done, started, ttl, got 'don'; did you mean 'done'\?"),
        ({"until": None}, "until must be one of done, started, ttl, got None"),
        ({"on_conflict": "debouce"}, "on_conflict must be one of .*; did you mean 'debounce'"),
        ({"until": "ttl"}, r"ttl must be at least 0\.001 seconds"),
        ({"until": "ttl", "ttl": float("inf")}, r"ttl must be at least 0\.001 seconds"),
        ({"ttl": -1}, "ttl must be at least 0 seconds"),
        ({"ttl": float("nan")}, "ttl must be at least 0 seconds"),
        ({"ttl": "60"}, "ttl must be a number of seconds"),
    ],
)
def test_a_unique_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Unique(**({"key": "k"} | options))


@pytest.mark.parametrize(
    ("retried", "attempt", "final"), [(0, 1, False), (1, 2, False), (2, 3, True), (3, 4, True)]
)
def test_the_last_attempt_knows_that_it_is_the_last(retried: int, attempt: int, final: bool) -> None:
    job = Job(id="j", type="t", queue="default", data="{}", max_retry=2, retried=retried)
    assert (job.attempt, job.final) == (attempt, final)
