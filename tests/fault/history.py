"""history: what the processes of a soak run wrote down, and what their database holds in the end, as the checker takes it.

An events file belongs to one process. A line is a time in µs since 1970 and an event; lists are separated by commas, and
"-" is the empty one:

    boot PID
    call N enqueue KEY,...              about to be asked of the database; N counts the calls of this process
    ret N enqueue ok ID:KEY,...         committed; ID:KEY:held when job ID held the unique key already
    ret N enqueue fail ...              known not to be committed (refused, or rolled back by the producer)
    ret N enqueue unknown ...           nobody knows; so it is with a call that has no ret
    call N signal JOB:NAME:NUMBER       ret N signal ok ...   (fail, unknown) as with enqueue; NUMBER is the signal's own
    call N cancel ID                    ret N cancel ok ID    likewise
    call N claim TOKEN                  ret N claim ok ID:ATTEMPT,...
    call N settle ID:TOKEN:OUTCOME,...  ret N settle ok ID:TOKEN:STATE,...
        OUTCOME stick: goes on with the next step under the same claim. STATE stale: it counted for nothing; stuck, on: a
        machine that went on, with its claim or without
    call N renew TOKEN,...              ret N renew ok TOKEN,...
    call N sweep -                      ret N sweep ok ID:STATE,...
    start ID ATTEMPT TOKEN              a handler begins; a worker without a database has a ticket for a token (tickets.py)
    end ID ATTEMPT TOKEN OUTCOME        a handler has ended
    report ID TICKET OUTCOME STATE      what a server answered to such a worker; STATE stale: it counted for nothing
    dies MOMENT                         kills itself (moments.h)
    signal                              it was told to stop
    stopped LEFT                        it stops, and leaves LEFT runs to their lease
    counters NAME:VALUE,...
"""

import collections
import json
import os

Start = collections.namedtuple('Start', 'process at_us line id attempt token')
End = collections.namedtuple('End', 'process at_us line id attempt token')
Report = collections.namedtuple('Report', 'process at_us id token outcome state')

# A commit's time is taken before it is flushed, and it is seen after that: on a busy machine a good deal later. Until then a statement that
# began may or may not have seen it.
SEEN_US = 100_000


class Call:
    """One call to the database and what became of it."""

    def __init__(self, process, number, op, at_us, items):
        self.process = process
        self.number = number
        self.op = op
        self.called_us = at_us
        self.items = items
        self.result = 'unknown'  # until told otherwise
        self.returned_us = None
        self.line = None  # of the ret
        self.answers = []

    def __repr__(self):
        return f'{self.process}, call {self.number} ({self.op}, {self.result})'


class History:
    def __init__(self):
        self.calls = []
        self.starts = []
        self.ends = []
        self.reports = []
        self.deaths = collections.Counter()  # by moment
        self.counters = collections.Counter()
        self.processes = 0
        self.stopped = 0  # processes that ended in good order
        self.left = 0     # runs that they left to their lease
        # The database at the end; lists of dictionaries.
        self.jobs = []      # id, key, token, attempt, max_attempts, parent_id
        self.finished = []  # id, key, state, attempt, max_attempts, parent_id, kind, result, late: its deadline had passed
        self.claims = []    # token, expired
        self.relics = []    # what, job_id: of jobs that are not there any more
        self.trace = []     # as soak.trace, in its order, side rows put into those of their jobs (merged); times in µs; commit_us
        self.seen_us = SEEN_US

    def of(self, op):
        return [call for call in self.calls if call.op == op]

    def read_events(self, path):
        with open(path, encoding='utf-8') as f:
            self.add_events(os.path.basename(path), f.read())

    def add_events(self, process, text):
        self.processes += 1
        calls = {}
        # What kill -9 cut off has no newline.
        for number, line in enumerate(text.split('\n')[:-1], 1):
            at_us, event, *words = line.split(' ')
            at_us = int(at_us)
            if event == 'call':
                call = Call(process, int(words[0]), words[1], at_us, split(words[2]))
                calls[call.number] = call
                self.calls.append(call)
            elif event == 'ret':
                call = calls[int(words[0])]
                call.result, call.answers = words[2], split(words[3])
                call.returned_us, call.line = at_us, number
            elif event == 'start':
                self.starts.append(Start(process, at_us, number, int(words[0]), int(words[1]), words[2]))
            elif event == 'end':
                self.ends.append(End(process, at_us, number, int(words[0]), int(words[1]), words[2]))
            elif event == 'report':
                self.reports.append(Report(process, at_us, int(words[0]), *words[1:4]))
            elif event == 'dies':
                self.deaths[words[0]] += 1
            elif event == 'stopped':
                self.stopped += 1
                self.left += int(words[0])
            elif event == 'counters':
                self.counters.update({name: int(value) for name, value in split(words[0])})

    def read_dump(self, path):
        """Lines of JSON, each an object with the name of its table in "table"."""
        with open(path, encoding='utf-8') as f:
            for line in f:
                row = json.loads(line)
                getattr(self, row.pop('table')).append(row)
        self.trace.sort(key=lambda row: row['seq'])
        self.trace = merged(self.trace)


# Of a job, and not in its row: those of pawl.machine change, its unique key does not.
MACHINE = ('joins', 'wait_until_us', 'awaits', 'step', 'kids', 'join_at', 'join_flags')


def merged(trace):
    """The trace as if a job were one row. What its machine says is put into each of its rows: as it was after whatever was written
    before, for a machine is changed before its job, and goes after it. A change of a machine by itself becomes one of the job; not
    where a step goes on (job_settle_step), which writes both."""
    guards = {row['id']: row['guard'] for row in trace if row['what'] == 'option' and row['guard'] is not None}
    machines = {}
    rows = []
    for row in trace:
        job = row['id']
        if row['what'] == 'machine' and row['op'] == 'DELETE':
            machines.pop(job, None)
        elif row['what'] == 'machine':
            machines[job] = {name: row[name] for name in MACHINE}
            if row['attempt'] is not None and row['statement'] != 'job_settle_step':
                rows.append({**row, 'what': 'job', 'op': 'UPDATE', 'guard': guards.get(job)})
        elif row['what'] == 'job':
            rows.append({**row, **machines.get(job, {}), 'guard': guards.get(job)})
        elif row['what'] != 'option':
            rows.append(row)
    return rows


def split(text):
    """Items; those with parts as tuples."""
    if text == '-':
        return []
    return [tuple(item.split(':')) if ':' in item else item for item in text.split(',')]


# One SELECT per table for read_dump.
DUMP = [
    """SELECT row_to_json(r) FROM (
           SELECT 'jobs' AS "table", id, split_part(convert_from(payload, 'UTF8'), ' ', 1) AS key, token, attempt,
                  max_attempts, parent_id
           FROM pawl.job) AS r""",
    """SELECT row_to_json(r) FROM (
           SELECT 'finished' AS "table", id, split_part(convert_from(payload, 'UTF8'), ' ', 1) AS key, state, attempt,
                  max_attempts, parent_id, kind, convert_from(result, 'UTF8') AS result,
                  coalesce(errors::text LIKE '%deadline of the %', false) AS late
           FROM pawl.history) AS r""",
    """SELECT row_to_json(r) FROM (
           SELECT 'claims' AS "table", token, lease_until < clock_timestamp() AS expired FROM pawl.claim) AS r""",
    """SELECT row_to_json(r) FROM (
           SELECT 'relics' AS "table", l.what, l.job_id
           FROM (SELECT 'signal' AS what, job_id FROM pawl.signal UNION ALL
                 SELECT 'result', parent_id FROM pawl.child UNION ALL
                 SELECT 'machine', job_id FROM pawl.machine UNION ALL
                 SELECT 'option', job_id FROM pawl.job_option UNION ALL
                 SELECT 'orphan', child_id FROM pawl.orphan UNION ALL
                 SELECT 'lease', job_id FROM pawl.held) AS l
           WHERE NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = l.job_id)) AS r""",
    """SELECT row_to_json(r) FROM (
           SELECT 'trace' AS "table", seq, (extract(epoch FROM at) * 1000000)::bigint AS at_us,
                  (extract(epoch FROM pg_xact_commit_timestamp(xid)) * 1000000)::bigint AS commit_us,
                  (extract(epoch FROM began) * 1000000)::bigint AS began_us,
                  (extract(epoch FROM since) * 1000000)::bigint AS since_us, xid,
                  statement, what, op, id, token, old_token, attempt, old_attempt, state, queue, lane, guard, parent_id,
                  joins, awaits, step, waits_for, join_of, kids, join_at, join_flags, let_go, holders, priority, ledger, signal_id, name, shown,
                  consumed,
                  (extract(epoch FROM deadline_at) * 1000000)::bigint AS deadline_us,
                  CASE WHEN isfinite(due_at) THEN (extract(epoch FROM due_at) * 1000000)::bigint END AS due_us,
                  (extract(epoch FROM wait_until) * 1000000)::bigint AS wait_until_us,
                  (extract(epoch FROM lease_until) * 1000000)::bigint AS lease_us,
                  (extract(epoch FROM old_lease) * 1000000)::bigint AS old_lease_us
           FROM soak.trace) AS r""",
]
