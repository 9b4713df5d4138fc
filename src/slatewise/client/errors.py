"""What can go wrong between a client and its service."""

import httpx

from slatewise.errors import SlatewiseError


class ServiceError(SlatewiseError):
    """The service refused a request, or could not answer it; `status` is that of HTTP."""

    def __init__(self, status: int, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.status = status

    @classmethod
    def of(cls, response: httpx.Response) -> "ServiceError":
        """Read the problem of a response; a proxy may have sent anything."""
        try:
            found = response.json()
            return cls(response.status_code, str(found["detail"]), str(found["remedy"]))
        except (ValueError, KeyError, TypeError):
            problem = f"The service answered {response.status_code} {response.reason_phrase}."
            return cls(response.status_code, problem, "Look at what stands in front of it.")


class UnreachableError(SlatewiseError):
    """The service could not be reached, or did not answer in time, however often it was tried."""
