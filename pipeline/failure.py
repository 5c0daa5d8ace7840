"""What is written down of an exception: bounded, and never a second exception."""

import traceback

from contracts.wire import cut


def describe(error: BaseException) -> str:
    """Return ``Type: message`` in at most 8 KB, whatever the exception's own ``__str__`` does."""
    try:
        text = str(error)
    except BaseException as broken:  # noqa: BLE001 - a message that cannot be made must not hide the failure
        text = f"<its message raised {type(broken).__name__}>"
    name = type(error).__qualname__
    return cut(f"{name}: {text}" if text else name)


def stack(error: BaseException, limit: int = 20) -> str:
    """Return the last frames of an exception for the log, in at most 8 KB."""
    try:
        return cut("".join(traceback.format_exception(error, limit=-limit, chain=False)))
    except BaseException:  # noqa: BLE001 - see describe
        return describe(error)
