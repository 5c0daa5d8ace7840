"""Who acts, on what: the same of a request and of a command."""

from dataclasses import dataclass

from fastapi import Request

from pipeline.http.desk import Desk, desk_of
from pipeline.http.principal import Principal


@dataclass(frozen=True, slots=True)
class Call:
    """`path` and `method` are of the request, as the audit log tells them; on the command line the command, and nothing.
    `any_job`: also a job that works on no document may be cancelled by itself.
    """

    desk: Desk
    who: Principal
    path: str
    method: str = ""
    any_job: bool = False

    @classmethod
    def of(cls, request: Request, who: Principal) -> "Call":
        """Return what a request is."""
        return cls(desk_of(request), who, request.url.path, request.method)
