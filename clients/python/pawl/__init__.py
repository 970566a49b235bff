"""Workers and producers for Pawl, a durable job engine on PostgreSQL. The README is the quick start."""

from .aio import AsyncClient
from .channel import TLS
from .client import Client
from .errors import (
    AuthError,
    ExistsError,
    InvalidError,
    JobFailedError,
    NotFoundError,
    NotJSONError,
    PawlError,
    ServerError,
    StateError,
    UnavailableError,
    WaitTimeoutError,
)
from .handlers import Machine
from .job import ChildResult, Job, Signal
from .new_job import NewJob
from .outcomes import Await, Cancel, Child, Done, JobStopped, Next, PermanentError, Reject, Retry, Snooze, Spawn
from .views import Accepted, Cancelled, JobError, JobView, Page, Progress, QueueStats, Stats, WorkerStats
from .worker import Worker

__version__ = '0.1.0'

__all__ = [
    'Accepted',
    'AsyncClient',
    'AuthError',
    'Await',
    'Cancel',
    'Cancelled',
    'Child',
    'ChildResult',
    'Client',
    'Done',
    'ExistsError',
    'InvalidError',
    'Job',
    'JobError',
    'JobFailedError',
    'JobStopped',
    'JobView',
    'Machine',
    'NewJob',
    'Next',
    'NotFoundError',
    'NotJSONError',
    'Page',
    'PawlError',
    'PermanentError',
    'Progress',
    'QueueStats',
    'Reject',
    'Retry',
    'ServerError',
    'Signal',
    'Snooze',
    'Spawn',
    'StateError',
    'Stats',
    'TLS',
    'UnavailableError',
    'WaitTimeoutError',
    'Worker',
    'WorkerStats',
]
