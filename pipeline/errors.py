"""What can go wrong, as types. Every message says what to do next where something can be done."""

from collections.abc import Sequence

from pipeline.receipt import Receipt


class StreamlaneError(Exception):
    """Everything this product raises on purpose."""


class ConfigurationError(StreamlaneError):
    """A setting or option that cannot be used; nothing was started."""


class Outage(StreamlaneError):  # noqa: N818 - a state of the world
    """What is needed is away for a while. A job that meets it is put off and loses no attempt, for up to an hour."""


class StoreUnavailable(Outage):
    """The store did not answer, or refused: the operation may or may not have happened; repeat it with the same id."""


class StoreFull(StoreUnavailable):
    """The store has no room: free space on its disk (or raise its memory limit), then repeat."""


class EnqueueFailed(StreamlaneError):  # noqa: N818
    """The enqueue raised; repeating it with `job_id` happens once."""

    def __init__(self, job_id: str, cause: BaseException) -> None:
        super().__init__(f"could not enqueue job {job_id}: {_clause(cause)}; repeat with id={job_id!r}")
        self.job_id = job_id


class PartialEnqueue(StreamlaneError):  # noqa: N818
    """Some of many jobs were not enqueued: `receipts` has None in their places."""

    def __init__(
        self, receipts: Sequence[Receipt | None], job_ids: Sequence[str], cause: BaseException
    ) -> None:
        missing = sum(receipt is None for receipt in receipts)
        super().__init__(
            f"{missing} of {len(receipts)} jobs were not enqueued: {_clause(cause)}; repeat those with their ids"
        )
        self.receipts = receipts
        self.job_ids = job_ids


def is_outage(error: BaseException | None) -> bool:
    """Whether all that is wrong is that what is needed was away."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_outage, error.exceptions))
    if isinstance(error, EnqueueFailed | PartialEnqueue):
        return is_outage(error.__cause__)
    return isinstance(error, Outage)


class PayloadInvalid(StreamlaneError, ValueError):  # noqa: N818
    """A payload that cannot be written: it holds what JSON has no place for, or an id that names no scope."""


class PayloadTooLarge(StreamlaneError, ValueError):  # noqa: N818
    """A payload over the limit: put the data in the file store and pass its key."""


class JobNotFound(StreamlaneError, LookupError):  # noqa: N818
    """No job has this id (any more)."""


class NotAllowed(StreamlaneError):  # noqa: N818
    """The job's state does not allow this action; nothing was changed."""


class JobArchived(StreamlaneError):  # noqa: N818
    """The awaited job was given up; the message has its reason and last error."""


class JobCancelled(StreamlaneError):  # noqa: N818
    """The awaited job was cancelled."""


class WaitTimeout(StreamlaneError, TimeoutError):  # noqa: N818
    """The awaited job did not end in time; it goes on."""


class CursorInvalid(StreamlaneError, ValueError):  # noqa: N818
    """A page cursor that was made for something else, or by hand."""


class CursorExpired(StreamlaneError):  # noqa: N818
    """A page cursor of another version; start again from the first page."""


def _clause(cause: BaseException) -> str:
    return str(cause).rstrip(".")
