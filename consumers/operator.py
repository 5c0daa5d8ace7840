"""Who acts on the command line of this machine."""

import getpass
import os

from pipeline.http.principal import COMMAND_LINE
from pipeline.store.audit import Deed


def operator() -> str:
    """Return the name of the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that nobody named
        return str(os.getuid())


def deed(command: str, action: str, target: tuple[str, str], **details: str) -> Deed:
    """Return what the audit log says of a command that does something to `target`, a type and an id."""
    return Deed(
        action=action,
        actor_user_id=operator(),
        actor_role=COMMAND_LINE,
        target_type=target[0],
        target_id=target[1],
        request_path=f"streamlane {command}",
        details=details,
    )
