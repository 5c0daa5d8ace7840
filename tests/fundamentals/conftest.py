"""What each lesson starts with."""

import contracts.jobs
import pytest


@pytest.fixture(autouse=True)
def own_job_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job type that a lesson defines inside its test is known in that lesson only."""
    monkeypatch.setattr(contracts.jobs, "_REGISTRY", {})
