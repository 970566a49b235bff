"""What can go wrong, as exceptions: of calls to the server, and of jobs that were waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from .views import JobView


class PawlError(Exception):
    """Anything that Pawl has to say no with."""


class ServerError(PawlError):
    """A call was refused, or could not be made. `code` is gRPC's name of the status, `retryable` says that the same
    call may work later, `method` which call it was."""

    def __init__(self, code: str, message: str, method: str = '') -> None:
        super().__init__(f'{method}: {message} ({code})' if method else f'{message} ({code})')
        self.code = code
        self.message = message
        self.method = method

    @property
    def retryable(self) -> bool:
        return self.code in RETRYABLE


class InvalidError(ServerError):
    """The request is wrong; sending it again would fail again."""


class NotFoundError(ServerError):
    """There is no such job."""


class StateError(ServerError):
    """Not possible in the job's present state."""


class ExistsError(StateError):
    """The unique key is taken, and on_conflict says refuse."""


class AuthError(ServerError):
    """No token, a wrong one, or one without this right."""


class UnavailableError(ServerError):
    """The server, or its database, could not be reached in time."""


class NotJSONError(PawlError, ValueError):
    """Bytes that were to be read as JSON and are none. The bytes themselves are beside it, in `..._bytes`."""


class JobFailedError(PawlError):
    """The job that was waited for has failed or was cancelled; `job` is what is known of it."""

    def __init__(self, job: 'JobView') -> None:
        why = f': {job.errors[-1].error}' if job.errors else ''
        super().__init__(f'job {job.id} {job.kind} {job.state}{why}')
        self.job = job


class WaitTimeoutError(PawlError, TimeoutError):
    """The job had not ended when the time was over."""


LAST_TRY = 0.5  # seconds to find out why there was no connection

# Worth another try: every call of this client may be repeated without a second effect.
RETRYABLE = frozenset({'UNAVAILABLE', 'ABORTED', 'DEADLINE_EXCEEDED', 'UNKNOWN', 'INTERNAL', 'CANCELLED'})

_CLASSES = {
    'INVALID_ARGUMENT': InvalidError,
    'OUT_OF_RANGE': InvalidError,
    'RESOURCE_EXHAUSTED': InvalidError,
    'UNIMPLEMENTED': InvalidError,
    'NOT_FOUND': NotFoundError,
    'ALREADY_EXISTS': ExistsError,
    'FAILED_PRECONDITION': StateError,
    'UNAUTHENTICATED': AuthError,
    'PERMISSION_DENIED': AuthError,
    'UNAVAILABLE': UnavailableError,
    'DEADLINE_EXCEEDED': UnavailableError,
}


def from_rpc(error: grpc.RpcError, method: str = '') -> ServerError:
    """gRPC's exception as ours."""
    code = error.code().name if callable(getattr(error, 'code', None)) and error.code() else 'UNKNOWN'
    details = error.details() if callable(getattr(error, 'details', None)) else ''
    if code == 'DEADLINE_EXCEEDED':
        details = 'no server could be reached, or none answered, in time'
    return _CLASSES.get(code, ServerError)(code, details or 'the call failed', method)
