"""JSON as it is sent."""

import json
from typing import Any

from fastapi.responses import JSONResponse


class Json(JSONResponse):
    """JSON in characters that can always be sent: an error text may hold half of a surrogate pair."""

    def render(self, content: Any) -> bytes:
        """See `JSONResponse`."""
        return json.dumps(content, separators=(",", ":")).encode()
