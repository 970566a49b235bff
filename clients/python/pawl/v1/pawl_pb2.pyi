from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
ITEM_STATUS_INVALID: ItemStatus
ITEM_STATUS_NOT_FOUND: ItemStatus
ITEM_STATUS_OK: ItemStatus
ITEM_STATUS_RETRY: ItemStatus
ITEM_STATUS_STALE: ItemStatus
ITEM_STATUS_UNSPECIFIED: ItemStatus
ITEM_STATUS_WRONG_STATE: ItemStatus
JOB_STATE_CANCELLED: JobState
JOB_STATE_DONE: JobState
JOB_STATE_FAILED: JobState
JOB_STATE_PARKED: JobState
JOB_STATE_READY: JobState
JOB_STATE_RETRYING: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_SCHEDULED: JobState
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_WAITING: JobState
STOP_REASON_CANCELLED: StopReason
STOP_REASON_LOST: StopReason
STOP_REASON_TIMEOUT: StopReason
STOP_REASON_UNSPECIFIED: StopReason

class Accepted(_message.Message):
    __slots__ = ["existed", "job_id"]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    existed: bool
    job_id: int
    def __init__(self, job_id: _Optional[int] = ..., existed: bool = ...) -> None: ...

class AssignedJob(_message.Message):
    __slots__ = ["attempt", "children", "children_left", "job_id", "kind", "lane", "lease_until_us", "machine_data", "max_attempts", "payload", "priority", "queue", "signals", "step", "timed_out", "timeout_ms", "token", "trace"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_LEFT_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    MACHINE_DATA_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    children: _containers.RepeatedCompositeFieldContainer[ChildResult]
    children_left: int
    job_id: int
    kind: str
    lane: str
    lease_until_us: int
    machine_data: bytes
    max_attempts: int
    payload: bytes
    priority: int
    queue: str
    signals: _containers.RepeatedCompositeFieldContainer[ReceivedSignal]
    step: str
    timed_out: bool
    timeout_ms: int
    token: bytes
    trace: str
    def __init__(self, job_id: _Optional[int] = ..., token: _Optional[bytes] = ..., kind: _Optional[str] = ..., queue: _Optional[str] = ..., payload: _Optional[bytes] = ..., attempt: _Optional[int] = ..., max_attempts: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., priority: _Optional[int] = ..., lane: _Optional[str] = ..., step: _Optional[str] = ..., machine_data: _Optional[bytes] = ..., signals: _Optional[_Iterable[_Union[ReceivedSignal, _Mapping]]] = ..., children: _Optional[_Iterable[_Union[ChildResult, _Mapping]]] = ..., lease_until_us: _Optional[int] = ..., timed_out: bool = ..., children_left: _Optional[int] = ..., trace: _Optional[str] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ["jobs"]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[AssignedJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[AssignedJob, _Mapping]]] = ...) -> None: ...

class AwaitOutcome(_message.Message):
    __slots__ = ["machine_data", "signals", "step", "timeout_ms", "timeout_step"]
    MACHINE_DATA_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_STEP_FIELD_NUMBER: _ClassVar[int]
    machine_data: bytes
    signals: _containers.RepeatedScalarFieldContainer[str]
    step: str
    timeout_ms: int
    timeout_step: str
    def __init__(self, signals: _Optional[_Iterable[str]] = ..., step: _Optional[str] = ..., machine_data: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ..., timeout_step: _Optional[str] = ...) -> None: ...

class CancelAnswer(_message.Message):
    __slots__ = ["job_id", "state", "status"]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    state: JobState
    status: ItemStatus
    def __init__(self, job_id: _Optional[int] = ..., status: _Optional[_Union[ItemStatus, str]] = ..., state: _Optional[_Union[JobState, str]] = ...) -> None: ...

class CancelOutcome(_message.Message):
    __slots__ = ["reason"]
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ["job_ids", "reason"]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    def __init__(self, job_ids: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ["answers"]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[CancelAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[CancelAnswer, _Mapping]]] = ...) -> None: ...

class CancelRun(_message.Message):
    __slots__ = ["grace_ms", "job_id", "reason", "stop_reason", "token"]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    grace_ms: int
    job_id: int
    reason: str
    stop_reason: StopReason
    token: bytes
    def __init__(self, job_id: _Optional[int] = ..., token: _Optional[bytes] = ..., reason: _Optional[str] = ..., grace_ms: _Optional[int] = ..., stop_reason: _Optional[_Union[StopReason, str]] = ...) -> None: ...

class Child(_message.Message):
    __slots__ = ["job", "name"]
    JOB_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    job: NewJob
    name: str
    def __init__(self, name: _Optional[str] = ..., job: _Optional[_Union[NewJob, _Mapping]] = ...) -> None: ...

class ChildResult(_message.Message):
    __slots__ = ["error", "job_id", "kind", "name", "result", "state"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    error: str
    job_id: int
    kind: str
    name: str
    result: bytes
    state: JobState
    def __init__(self, job_id: _Optional[int] = ..., name: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., result: _Optional[bytes] = ..., error: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class CreditChange(_message.Message):
    __slots__ = ["credits"]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    credits: int
    def __init__(self, credits: _Optional[int] = ...) -> None: ...

class DoneOutcome(_message.Message):
    __slots__ = ["result"]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bytes
    def __init__(self, result: _Optional[bytes] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ["grace_ms", "reason", "reconnect"]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_FIELD_NUMBER: _ClassVar[int]
    grace_ms: int
    reason: str
    reconnect: bool
    def __init__(self, reason: _Optional[str] = ..., reconnect: bool = ..., grace_ms: _Optional[int] = ...) -> None: ...

class EnqueueRequest(_message.Message):
    __slots__ = ["idempotency_key", "jobs"]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    idempotency_key: str
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class EnqueueResponse(_message.Message):
    __slots__ = ["accepted"]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    accepted: _containers.RepeatedCompositeFieldContainer[Accepted]
    def __init__(self, accepted: _Optional[_Iterable[_Union[Accepted, _Mapping]]] = ...) -> None: ...

class FailOutcome(_message.Message):
    __slots__ = ["error"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ["job_id", "without_data"]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_DATA_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    without_data: bool
    def __init__(self, job_id: _Optional[int] = ..., without_data: bool = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ["job"]
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: JobView
    def __init__(self, job: _Optional[_Union[JobView, _Mapping]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ["left_stream", "progress", "running", "worker_id"]
    LEFT_STREAM_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    left_stream: bool
    progress: _containers.RepeatedCompositeFieldContainer[JobProgress]
    running: _containers.RepeatedCompositeFieldContainer[RunningJob]
    worker_id: str
    def __init__(self, worker_id: _Optional[str] = ..., running: _Optional[_Iterable[_Union[RunningJob, _Mapping]]] = ..., progress: _Optional[_Iterable[_Union[JobProgress, _Mapping]]] = ..., left_stream: bool = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ["cancelled_job_ids", "lease_until_us", "lost_job_ids"]
    CANCELLED_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    LOST_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    cancelled_job_ids: _containers.RepeatedScalarFieldContainer[int]
    lease_until_us: int
    lost_job_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lease_until_us: _Optional[int] = ..., lost_job_ids: _Optional[_Iterable[int]] = ..., cancelled_job_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class JobError(_message.Message):
    __slots__ = ["at_us", "attempt", "error", "error_class"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    attempt: int
    error: str
    error_class: str
    def __init__(self, attempt: _Optional[int] = ..., error_class: _Optional[str] = ..., error: _Optional[str] = ..., at_us: _Optional[int] = ...) -> None: ...

class JobProgress(_message.Message):
    __slots__ = ["job_id", "note", "percent", "token"]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    note: str
    percent: int
    token: bytes
    def __init__(self, job_id: _Optional[int] = ..., token: _Optional[bytes] = ..., percent: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class JobView(_message.Message):
    __slots__ = ["attempt", "created_at_us", "due_at_us", "errors", "finished_at_us", "job_id", "kind", "lane", "max_attempts", "parent_id", "payload", "priority", "progress", "queue", "queue_paused", "result", "started_at_us", "state", "step", "tags", "unique_key", "worker_id"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_US_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_US_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PAUSED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    created_at_us: int
    due_at_us: int
    errors: _containers.RepeatedCompositeFieldContainer[JobError]
    finished_at_us: int
    job_id: int
    kind: str
    lane: str
    max_attempts: int
    parent_id: int
    payload: bytes
    priority: int
    progress: JobProgress
    queue: str
    queue_paused: bool
    result: bytes
    started_at_us: int
    state: JobState
    step: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    unique_key: str
    worker_id: str
    def __init__(self, job_id: _Optional[int] = ..., state: _Optional[_Union[JobState, str]] = ..., queue: _Optional[str] = ..., kind: _Optional[str] = ..., priority: _Optional[int] = ..., attempt: _Optional[int] = ..., max_attempts: _Optional[int] = ..., created_at_us: _Optional[int] = ..., due_at_us: _Optional[int] = ..., started_at_us: _Optional[int] = ..., finished_at_us: _Optional[int] = ..., worker_id: _Optional[str] = ..., payload: _Optional[bytes] = ..., result: _Optional[bytes] = ..., errors: _Optional[_Iterable[_Union[JobError, _Mapping]]] = ..., lane: _Optional[str] = ..., unique_key: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., step: _Optional[str] = ..., parent_id: _Optional[int] = ..., queue_paused: bool = ..., progress: _Optional[_Union[JobProgress, _Mapping]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ["kind", "limit", "page", "queue", "states", "tags"]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    limit: int
    page: str
    queue: str
    states: _containers.RepeatedScalarFieldContainer[JobState]
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queue: _Optional[str] = ..., kind: _Optional[str] = ..., states: _Optional[_Iterable[_Union[JobState, str]]] = ..., tags: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., page: _Optional[str] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ["jobs", "next_page"]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobView]
    next_page: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobView, _Mapping]]] = ..., next_page: _Optional[str] = ...) -> None: ...

class NewJob(_message.Message):
    __slots__ = ["correlation", "deadline_ms", "delay_ms", "due_at_us", "kind", "lane", "max_attempts", "on_conflict", "payload", "payload_is_bytes", "priority", "queue", "retry", "retry_base_ms", "retry_cap_ms", "step", "tags", "timeout_ms", "trace", "unique_for_ms", "unique_key", "unique_scope", "unique_states"]
    CORRELATION_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_US_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_IS_BYTES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RETRY_BASE_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_CAP_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_FOR_MS_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_STATES_FIELD_NUMBER: _ClassVar[int]
    correlation: str
    deadline_ms: int
    delay_ms: int
    due_at_us: int
    kind: str
    lane: str
    max_attempts: int
    on_conflict: str
    payload: bytes
    payload_is_bytes: bool
    priority: int
    queue: str
    retry: str
    retry_base_ms: int
    retry_cap_ms: int
    step: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    timeout_ms: int
    trace: str
    unique_for_ms: int
    unique_key: str
    unique_scope: str
    unique_states: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., queue: _Optional[str] = ..., payload: _Optional[bytes] = ..., payload_is_bytes: bool = ..., priority: _Optional[int] = ..., delay_ms: _Optional[int] = ..., due_at_us: _Optional[int] = ..., max_attempts: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., unique_key: _Optional[str] = ..., unique_for_ms: _Optional[int] = ..., lane: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., step: _Optional[str] = ..., trace: _Optional[str] = ..., correlation: _Optional[str] = ..., deadline_ms: _Optional[int] = ..., retry: _Optional[str] = ..., retry_base_ms: _Optional[int] = ..., retry_cap_ms: _Optional[int] = ..., unique_scope: _Optional[str] = ..., unique_states: _Optional[_Iterable[str]] = ..., on_conflict: _Optional[str] = ...) -> None: ...

class NextOutcome(_message.Message):
    __slots__ = ["delay_ms", "machine_data", "step"]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    MACHINE_DATA_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    delay_ms: int
    machine_data: bytes
    step: str
    def __init__(self, step: _Optional[str] = ..., machine_data: _Optional[bytes] = ..., delay_ms: _Optional[int] = ...) -> None: ...

class PauseQueueRequest(_message.Message):
    __slots__ = ["queue", "reason"]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    queue: str
    reason: str
    def __init__(self, queue: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PauseQueueResponse(_message.Message):
    __slots__ = ["was_paused"]
    WAS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    was_paused: bool
    def __init__(self, was_paused: bool = ...) -> None: ...

class QueueStats(_message.Message):
    __slots__ = ["counts", "oldest_due_ms", "paused", "queue"]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_DUE_MS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[StateCount]
    oldest_due_ms: int
    paused: bool
    queue: str
    def __init__(self, queue: _Optional[str] = ..., paused: bool = ..., counts: _Optional[_Iterable[_Union[StateCount, _Mapping]]] = ..., oldest_due_ms: _Optional[int] = ...) -> None: ...

class RateChange(_message.Message):
    __slots__ = ["burst", "queue", "starts_per_second"]
    BURST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STARTS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    burst: int
    queue: str
    starts_per_second: float
    def __init__(self, queue: _Optional[str] = ..., starts_per_second: _Optional[float] = ..., burst: _Optional[int] = ...) -> None: ...

class ReceivedSignal(_message.Message):
    __slots__ = ["id", "name", "payload", "sent_at_us"]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_US_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    payload: bytes
    sent_at_us: int
    def __init__(self, name: _Optional[str] = ..., payload: _Optional[bytes] = ..., sent_at_us: _Optional[int] = ..., id: _Optional[int] = ...) -> None: ...

class RejectOutcome(_message.Message):
    __slots__ = ["error"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class ReleaseOutcome(_message.Message):
    __slots__ = ["reason"]
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ["cancel", "done", "fail", "job_id", "next", "reject", "release", "retry", "run_us", "signal_ids", "snooze", "spawn", "token"]
    AWAIT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAIL_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    REJECT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    RUN_US_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_IDS_FIELD_NUMBER: _ClassVar[int]
    SNOOZE_FIELD_NUMBER: _ClassVar[int]
    SPAWN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    cancel: CancelOutcome
    done: DoneOutcome
    fail: FailOutcome
    job_id: int
    next: NextOutcome
    reject: RejectOutcome
    release: ReleaseOutcome
    retry: RetryOutcome
    run_us: int
    signal_ids: _containers.RepeatedScalarFieldContainer[int]
    snooze: SnoozeOutcome
    spawn: SpawnOutcome
    token: bytes
    def __init__(self, job_id: _Optional[int] = ..., token: _Optional[bytes] = ..., run_us: _Optional[int] = ..., signal_ids: _Optional[_Iterable[int]] = ..., done: _Optional[_Union[DoneOutcome, _Mapping]] = ..., retry: _Optional[_Union[RetryOutcome, _Mapping]] = ..., fail: _Optional[_Union[FailOutcome, _Mapping]] = ..., snooze: _Optional[_Union[SnoozeOutcome, _Mapping]] = ..., cancel: _Optional[_Union[CancelOutcome, _Mapping]] = ..., reject: _Optional[_Union[RejectOutcome, _Mapping]] = ..., next: _Optional[_Union[NextOutcome, _Mapping]] = ..., spawn: _Optional[_Union[SpawnOutcome, _Mapping]] = ..., release: _Optional[_Union[ReleaseOutcome, _Mapping]] = ..., **kwargs) -> None: ...

class ReportAnswer(_message.Message):
    __slots__ = ["error", "job_id", "state", "status"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    error: str
    job_id: int
    state: JobState
    status: ItemStatus
    def __init__(self, job_id: _Optional[int] = ..., status: _Optional[_Union[ItemStatus, str]] = ..., state: _Optional[_Union[JobState, str]] = ..., error: _Optional[str] = ...) -> None: ...

class ReportResultRequest(_message.Message):
    __slots__ = ["reports", "worker_id"]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[Report]
    worker_id: str
    def __init__(self, worker_id: _Optional[str] = ..., reports: _Optional[_Iterable[_Union[Report, _Mapping]]] = ...) -> None: ...

class ReportResultResponse(_message.Message):
    __slots__ = ["answers"]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[ReportAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[ReportAnswer, _Mapping]]] = ...) -> None: ...

class ResumeQueueRequest(_message.Message):
    __slots__ = ["queue"]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class ResumeQueueResponse(_message.Message):
    __slots__ = ["was_paused"]
    WAS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    was_paused: bool
    def __init__(self, was_paused: bool = ...) -> None: ...

class RetryOutcome(_message.Message):
    __slots__ = ["delay_ms", "error"]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    delay_ms: int
    error: str
    def __init__(self, error: _Optional[str] = ..., delay_ms: _Optional[int] = ...) -> None: ...

class RunningJob(_message.Message):
    __slots__ = ["job_id", "token"]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    token: bytes
    def __init__(self, job_id: _Optional[int] = ..., token: _Optional[bytes] = ...) -> None: ...

class SignalRequest(_message.Message):
    __slots__ = ["idempotency_key", "job_id", "name", "payload"]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    idempotency_key: str
    job_id: int
    name: str
    payload: bytes
    def __init__(self, job_id: _Optional[int] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class SignalResponse(_message.Message):
    __slots__ = ["woken"]
    WOKEN_FIELD_NUMBER: _ClassVar[int]
    woken: bool
    def __init__(self, woken: bool = ...) -> None: ...

class SnoozeOutcome(_message.Message):
    __slots__ = ["delay_ms"]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    delay_ms: int
    def __init__(self, delay_ms: _Optional[int] = ...) -> None: ...

class SpawnOutcome(_message.Message):
    __slots__ = ["cancel", "children", "fail_fast", "machine_data", "quorum", "step"]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    FAIL_FAST_FIELD_NUMBER: _ClassVar[int]
    MACHINE_DATA_FIELD_NUMBER: _ClassVar[int]
    QUORUM_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    cancel: bool
    children: _containers.RepeatedCompositeFieldContainer[Child]
    fail_fast: bool
    machine_data: bytes
    quorum: int
    step: str
    def __init__(self, children: _Optional[_Iterable[_Union[Child, _Mapping]]] = ..., step: _Optional[str] = ..., machine_data: _Optional[bytes] = ..., fail_fast: bool = ..., quorum: _Optional[int] = ..., cancel: bool = ...) -> None: ...

class StateCount(_message.Message):
    __slots__ = ["jobs", "state"]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    state: JobState
    def __init__(self, state: _Optional[_Union[JobState, str]] = ..., jobs: _Optional[int] = ...) -> None: ...

class StatsRequest(_message.Message):
    __slots__ = ["queues"]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queues: _Optional[_Iterable[str]] = ...) -> None: ...

class StatsResponse(_message.Message):
    __slots__ = ["queues", "uptime_ms", "workers"]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueStats]
    uptime_ms: int
    workers: _containers.RepeatedCompositeFieldContainer[WorkerStats]
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueStats, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerStats, _Mapping]]] = ..., uptime_ms: _Optional[int] = ...) -> None: ...

class StreamJobsRequest(_message.Message):
    __slots__ = ["credits", "kinds", "lease_ms", "queues", "running", "until_empty", "worker_id", "worker_name"]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    UNTIL_EMPTY_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_NAME_FIELD_NUMBER: _ClassVar[int]
    credits: int
    kinds: _containers.RepeatedScalarFieldContainer[str]
    lease_ms: int
    queues: _containers.RepeatedScalarFieldContainer[str]
    running: _containers.RepeatedCompositeFieldContainer[RunningJob]
    until_empty: bool
    worker_id: str
    worker_name: str
    def __init__(self, queues: _Optional[_Iterable[str]] = ..., kinds: _Optional[_Iterable[str]] = ..., worker_id: _Optional[str] = ..., credits: _Optional[int] = ..., lease_ms: _Optional[int] = ..., worker_name: _Optional[str] = ..., running: _Optional[_Iterable[_Union[RunningJob, _Mapping]]] = ..., until_empty: bool = ...) -> None: ...

class StreamJobsResponse(_message.Message):
    __slots__ = ["assignment", "cancel_run", "credit_change", "drain", "opened", "rate_change"]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_RUN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_CHANGE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    RATE_CHANGE_FIELD_NUMBER: _ClassVar[int]
    assignment: Assignment
    cancel_run: CancelRun
    credit_change: CreditChange
    drain: Drain
    opened: StreamOpened
    rate_change: RateChange
    def __init__(self, opened: _Optional[_Union[StreamOpened, _Mapping]] = ..., assignment: _Optional[_Union[Assignment, _Mapping]] = ..., credit_change: _Optional[_Union[CreditChange, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., rate_change: _Optional[_Union[RateChange, _Mapping]] = ..., cancel_run: _Optional[_Union[CancelRun, _Mapping]] = ...) -> None: ...

class StreamOpened(_message.Message):
    __slots__ = ["credits", "lease_ms", "lost_job_ids", "server_id"]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    LOST_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    credits: int
    lease_ms: int
    lost_job_ids: _containers.RepeatedScalarFieldContainer[int]
    server_id: str
    def __init__(self, lease_ms: _Optional[int] = ..., credits: _Optional[int] = ..., server_id: _Optional[str] = ..., lost_job_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class WorkerStats(_message.Message):
    __slots__ = ["connected_at_us", "credits", "draining", "ended", "running", "worker_id", "worker_name"]
    CONNECTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_NAME_FIELD_NUMBER: _ClassVar[int]
    connected_at_us: int
    credits: int
    draining: bool
    ended: int
    running: int
    worker_id: str
    worker_name: str
    def __init__(self, worker_id: _Optional[str] = ..., worker_name: _Optional[str] = ..., credits: _Optional[int] = ..., running: _Optional[int] = ..., ended: _Optional[int] = ..., draining: bool = ..., connected_at_us: _Optional[int] = ...) -> None: ...

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ItemStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
