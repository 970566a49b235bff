"""checker: proves from a history (history.py) that nothing was lost and nothing done twice, or says what went wrong.

The invariants, by their numbers:
 1  Every acknowledged enqueue reaches exactly one terminal state; one of unknown fate none or one; a failed one none.
 2  At most one valid claim per job at a time: a claim takes only what is free, and only an expired lease is swept.
 3  Attempts rise by one with each claim, and fall only when a job was given back or put off; tokens never repeat.
 4  Every start has an earlier committed claim, and a claim starts a job once. A machine that keeps its claim from step to
    step has the commit of the step before for a claim.
 5  One accepted terminal report per job, made with the token the job had; terminal rows never change. One whose end was
    asked for, and that was acknowledged, is done or cancelled.
 6  Lanes: no more run at a time than the lane lets in.
 7  Unique keys: at most one live job per key, and the loser learns the winner's id.
 8  A parent joins its children once, after all of them have ended.
 9  Each acknowledged signal is taken at most once, none is lost, and none fails to wake who waits for it.
11  After the faults have stopped nothing runs with an expired lease, and the queue drains.

Pure: no I/O, no clock. Two sources are compared, so that neither has to be believed: what the processes wrote down, and
what the database did (the trace). 6 to 9 are in relations.py.
"""

import collections

import relations
from relations import CLAIMS, DOUBLE, LOST, OTHER

TERMINAL = {'done', 'failed', 'cancelled'}
STEPS = {'job_settle_next', 'job_settle_step'}
SETTLES = {'job_settle', 'job_settle_children', 'job_settle_done', *STEPS}
CANCELS = {'job_cancel', None}  # None: at its commit, when the job ran at first and then did not
# By outcome: the attempt afterwards, from the one before; the machines' begin anew with each step.
ATTEMPTS = {'snooze': lambda n: n - 1, 'release': lambda n: n - 1, 'wait': lambda n: n - 1, 'stick': lambda n: 1,
            'next': lambda n: 0, 'await': lambda n: 0, 'spawn': lambda n: 0}
CLOCK_US = 1000  # the commit's time is read a little apart from the commit

Violation = collections.namedtuple('Violation', 'invariant kind text')


class Checker:
    def __init__(self, history, lease_ms):
        self.history = history
        self.lease_us = lease_ms * 1000
        self.violations = []
        self.trace_of = collections.defaultdict(list)  # job id: its rows in the trace
        for row in history.trace:
            if row['what'] != 'claim':
                self.trace_of[row['id']].append(row)
        # (job id, token): the settle calls that named it, with their outcome
        self.settles = collections.defaultdict(list)
        for call in history.of('settle'):
            for job, token, outcome in call.items:
                self.settles[int(job), token].append((call, outcome))

        self.cancels = collections.defaultdict(list)  # job id: the calls that asked for its end
        for call in history.of('cancel'):
            self.cancels[int(call.items[0])].append(call)

    def found(self, invariant, text, kind=OTHER):
        self.violations.append(Violation(invariant, kind, text))

    def run(self):
        self.enqueues()
        self.claims()
        self.transitions()
        self.starts()
        self.reports()
        self.ends()
        relations.check(self.history, self.found)
        self.quiet()
        return self.violations

    # --- 1

    def enqueues(self):
        rows = collections.defaultdict(list)  # key: where it is
        for row in self.history.jobs + self.history.finished:
            if row.get('parent_id') is None:  # children are their parents' business
                rows[row['key']].append((row.get('state', 'unfinished'), row['id']))
        known = set()
        for call in self.history.of('enqueue'):
            ids = {key: int(job) for job, key, *_ in call.answers} if call.result == 'ok' else {}
            held = {key for _, key, *held in call.answers if held} if call.result == 'ok' else set()
            for key in call.items:
                known.add(key)
                if key not in held:
                    self.enqueue(call, key, ids.get(key), rows[key])
                elif rows[key]:
                    self.found(7, f'job {key} is there ({rows[key]}) although its unique key was taken: {call}', DOUBLE)
        for key in set(rows) - known:
            self.found(1, f'job {key} is there, and nobody enqueued it: {rows[key]}', DOUBLE)

    def enqueue(self, call, key, job, found):
        if len(found) > 1:
            self.found(1, f'job {key} is there {len(found)} times: {found}', DOUBLE)
        elif call.result == 'fail' and found:
            self.found(1, f'job {key} is there ({found[0]}) although its enqueue failed: {call}', DOUBLE)
        elif call.result != 'ok':
            return
        elif not found:
            self.found(1, f'job {key} (id {job}) was acknowledged and is gone: {call}', LOST)
        elif found[0][1] != job:
            self.found(1, f'job {key} was acknowledged as id {job} and is {found[0]}')
        elif found[0][0] not in TERMINAL:
            self.found(1, f'job {key} (id {job}) has reached no terminal state', LOST)

    # --- 2 and 3: claims as the workers saw them

    def claims(self):
        used = {}
        acknowledged = collections.defaultdict(list)  # job id: (call, token)
        for call in self.history.of('claim'):
            token = call.items[0]
            if token in used:
                self.found(3, f'token {token} was used for two claims: {used[token]} and {call}')
            used[token] = call
            for job, _ in call.answers:
                acknowledged[int(job)].append((call, token))
        self.claim_of = used
        for job, claims in acknowledged.items():
            claims.sort(key=lambda claim: claim[0].called_us)
            for (first, token), (second, _) in zip(claims, claims[1:]):
                # The lease began after the call, and the second claim was committed before its ret. Of two calls that
                # overlap, which came first is in the trace alone.
                if first.returned_us > second.called_us or second.returned_us >= first.called_us + self.lease_us:
                    continue
                if not any(settle.result != 'fail' and settle.called_us <= second.returned_us
                           for settle, _ in self.settles[job, token]):
                    self.found(2, f'job {job} was claimed by {first} and, within its lease, by {second}', DOUBLE)

    # --- 2, 3 and 5: what happened to the rows

    def transitions(self):
        leases = {}  # token: until when it is valid at least, by what was seen so far
        state = {}   # job id: (attempt, token) as the last row of the trace left it, or 'gone'
        # (job id, token): the rows that give the right to a start: the claim, then steps that kept it
        self.claimed = collections.defaultdict(list)
        self.settled = {}
        ended = collections.Counter()
        for row in self.history.trace:
            if row['what'] == 'claim':
                self.lease(row, leases)
            elif row['what'] == 'history':
                ended[row['id']] += 1
                if row['op'] != 'INSERT':
                    self.found(5, f'the terminal row of job {row["id"]} was changed: {row}', DOUBLE)
                elif ended[row['id']] > 1:
                    self.found(5, f'job {row["id"]} ended for the second time: {row}', DOUBLE)
            elif row['what'] == 'job':
                self.transition(row, state, leases)

    def lease(self, row, leases):
        token = row['token']
        if row['op'] == 'INSERT':
            if token in leases:
                self.found(3, f'token {token} came back: {row}')
            leases[token] = row['lease_us']
        elif row['op'] == 'UPDATE':
            if row['lease_us'] < row['old_lease_us']:
                self.found(2, f'the lease of {token} has shrunk: {row}')
            leases[token] = row['lease_us']

    def transition(self, row, state, leases):
        job, statement = row['id'], row['statement']
        if row['op'] == 'INSERT':
            state[job] = (row['attempt'], row['token'])
            return
        if state.get(job) != (row['old_attempt'], row['old_token']):
            self.found(5, f'job {job} was left as {state.get(job)} and found as {row}', DOUBLE)
        state[job] = 'gone' if row['op'] == 'DELETE' else (row['attempt'], row['token'])
        if row['op'] == 'UPDATE' and (row['attempt'], row['token']) == (row['old_attempt'], row['old_token']) and \
                statement not in STEPS:
            return  # its due time, or what it waits for: a signal, a child, a lane
        if statement in CLAIMS:
            self.claim(row)
        elif statement in SETTLES:
            self.settle(row)
        elif row['op'] == 'DELETE' and row['old_token'] is None and \
                (statement in CANCELS and any(call.result != 'fail' for call in self.cancels[job]) or
                 statement == 'job_enqueue_rich' and row['guard'] is not None):
            return  # cancelled on the spot; or its unique key was taken
        elif statement == 'claim_sweep':
            self.sweep(row, leases)
        else:
            self.found(2, f'job {job} was changed by something unknown: {row}')

    def claim(self, row):
        job, token = row['id'], row['token']
        if row['old_token'] is not None:
            self.found(2, f'job {job} was claimed while it was claimed: {row}', DOUBLE)
        if row['attempt'] != row['old_attempt'] + 1:
            self.found(3, f'the claim of job {job} made attempt {row["old_attempt"]} to {row["attempt"]}: {row}')
        if (job, token) in self.claimed:
            self.found(3, f'job {job} was claimed twice with one token: {row}', DOUBLE)
        self.claimed[job, token].append(row)
        call = self.claim_of.get(token)
        if call is None:
            self.found(4, f'nobody called the claim {token} of job {job}: {row}')
        elif call.result == 'fail':
            self.found(4, f'a claim of job {job} that is said to have failed was committed: {call}')

    def settle(self, row):
        job, token = row['id'], row['old_token']
        calls = self.settles.get((job, token), [])
        self.settled[job, token] = row
        sent = [(call, outcome) for call, outcome in calls if call.result != 'fail']
        if not calls:
            self.found(5, f'job {job} had token {token} and was settled by somebody without it: {row}', DOUBLE)
            return
        if not sent:
            self.found(5, f'a settle of job {job} that is said to have failed was committed: {calls}')
        if row['op'] != 'UPDATE':
            return
        # A machine may settle several steps with one token; which of them this was is not written in the row.
        if not any(self.explains(outcome, row) for _, outcome in calls):
            self.found(3, f'job {job}, outcome {calls[-1][1]}, made attempt {row["old_attempt"]} to {row["attempt"]}: {row}')
        if row['token'] is not None:
            if not any(outcome == 'stick' for _, outcome in calls):
                self.found(2, f'job {job} was settled and is still claimed: {row}')
            self.claimed[job, token].append(row)

    @staticmethod
    def explains(outcome, row):
        return row['attempt'] == ATTEMPTS.get(outcome, lambda n: n)(row['old_attempt']) and \
            (outcome == 'stick') == (row['token'] is not None)

    def sweep(self, row, leases):
        job, token = row['id'], row['old_token']
        if token is None:
            self.found(2, f'job {job} was swept while nobody held it: {row}', DOUBLE)
        elif leases.get(token) is None or leases[token] >= row['at_us']:
            self.found(2, f'job {job} was swept while the lease of its claim {token} was valid: {row}', DOUBLE)
        if row['op'] == 'UPDATE' and row['attempt'] != row['old_attempt']:
            self.found(3, f'a sweep changed the attempt of job {job}: {row}')

    # --- 4

    def starts(self):
        known = collections.defaultdict(list)  # (job id, token, process): lines that told of a right to start it
        for call in self.history.of('claim'):
            for job, _ in call.answers:
                known[int(job), call.items[0], call.process].append(call.line)
        for call in self.history.of('settle'):
            for job, token, state in call.answers:
                if state == 'stuck':
                    known[int(job), token, call.process].append(call.line)
        seen = collections.Counter()
        for start in self.history.starts:
            what = f'job {start.id}, attempt {start.attempt}, was started by {start.process}'
            rights = self.claimed.get((start.id, start.token), [])
            heard = known[start.id, start.token, start.process]
            n = seen[start.id, start.token]
            seen[start.id, start.token] += 1
            if 0 < len(rights) <= n:
                self.found(4, f'{what} once more with one token', DOUBLE)
            elif not rights or rights[n]['attempt'] != start.attempt:
                self.found(4, f'{what} without a committed claim', DOUBLE)
            elif rights[n]['commit_us'] > start.at_us + CLOCK_US:
                self.found(4, f'{what} {rights[n]["commit_us"] - start.at_us} µs before its claim was committed', DOUBLE)
            if len(heard) <= n or heard[n] > start.line:
                self.found(4, f'{what} before it knew of its claim', DOUBLE)

    # --- 5: reports as the workers saw them

    def reports(self):
        accepted = collections.defaultdict(list)  # job id: terminal reports
        stale = set()
        unsure = set()
        for call in self.history.of('settle'):
            if call.result == 'unknown':
                unsure.update((int(job), token) for job, token, _ in call.items)
            for job, token, state in call.answers:
                job = int(job)
                if state == 'stale':
                    stale.add((job, token))
                    continue
                if state in TERMINAL:
                    accepted[job].append((call, state))
                if (job, token) not in self.settled:
                    self.found(5, f'the report of job {job} as {state} was accepted, and the job did not have that token '
                                  f'or did not change: {call}', DOUBLE)
        for job, token in stale & set(self.settled):
            # After a call of unknown fate, "stale" may well mean: the first one counted. A duplicate is stale, too.
            if (job, token) not in unsure and not self.acknowledged(job, token):
                self.found(5, f'the report of job {job} with token {token} was called stale, and it counted')
        states = {row['id']: row['state'] for row in self.history.finished}
        for job, reports in accepted.items():
            if len(reports) > 1:
                self.found(5, f'{len(reports)} terminal reports of job {job} were accepted: {reports}', DOUBLE)
            if states.get(job) != reports[0][1]:
                self.found(5, f'job {job} was reported as {reports[0][1]} and is {states.get(job)}',
                           DOUBLE if job in states else LOST)

    def ends(self):
        for row in self.history.trace:
            if row['what'] != 'history' or row['state'] != 'failed':
                continue
            for call in self.cancels[row['id']]:
                # What was acknowledged while the job was being settled may have come too late.
                if call.result == 'ok' and call.returned_us < row['began_us']:
                    self.found(5, f'job {row["id"]} was to be cancelled and failed: {call}, {row}')

    def acknowledged(self, job, token):
        return any(answer[:2] == (str(job), token) and answer[2] != 'stale'
                   for call, _ in self.settles[job, token] for answer in call.answers)

    # --- 11

    def quiet(self):
        for claim in self.history.claims:
            if claim['expired']:
                self.found(11, f'claim {claim["token"]} has expired, and nobody swept it')
        for job in self.history.jobs:
            what = 'still claimed' if job['token'] else 'still waiting'
            self.found(11, f'job {job["id"]} ({job["key"]}) is {what} after attempt {job["attempt"]}')


def check(history, lease_ms):
    """All violations, in the order of the invariants."""
    return sorted(Checker(history, lease_ms).run(), key=lambda violation: violation.invariant)
