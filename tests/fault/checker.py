"""checker: proves from a history (history.py) that nothing was lost and nothing done twice, or says what went wrong.

The invariants, by their numbers:
 1  Every acknowledged enqueue reaches exactly one terminal state; one of unknown fate none or one; a failed one none.
 2  At most one valid claim per job at a time: a claim takes only what is free, and only an expired lease is swept.
 3  Attempts rise by one with each claim, and fall only when a job was given back or put off; tokens never repeat.
 4  Every start has an earlier committed claim, and a claim starts a job once, in whatever process. A machine that keeps its
    claim from step to step has the commit of the step before for a claim.
 5  One accepted terminal report per job, made with the token the job had; terminal rows never change. One whose end was
    asked for, and that was acknowledged, is done or cancelled. What a server answers to a worker is what happened.
 6  Lanes: no more run at a time than the lane lets in, strict ones in their order, those with a rate no faster.
 7  Unique keys: at most one live job per key, and the loser learns the winner's id.
 8  A parent joins its children once, when all of them have ended, or as many as it asked for, and is called then. Those it
    goes on without, and wants cancelled, are not started.
 9  Each acknowledged signal is taken at most once, none is lost, and none fails to wake who waits for it.
11  After the faults have stopped nothing runs with an expired lease, and the queue drains. Nothing is left of jobs that are over.
12  A machine fails at its deadline, not before, and is not started after it.

Pure: no I/O, no clock. Two sources are compared, so that neither has to be believed: what the processes wrote down, and
what the database did (the trace). 6 is in lanes.py, 7 and 9 in relations.py, 8 in families.py, 12 in deadlines.py.
"""

import collections

import relations
import tickets
from relations import CLAIMS, DOUBLE, LOST, OTHER

TERMINAL = {'done', 'failed', 'cancelled'}
STEPS = {'job_settle_next', 'job_settle_step'}
SETTLES = {'job_settle', 'job_settle_done', *STEPS}
SWEEPS = {'claim_sweep', 'claim_sweep_park'}
ENQUEUES = {'job_enqueue_options', 'job_enqueue_once'}
CANCELS = {'job_cancel', None}  # None: at its commit, when the job ran at first and then did not
# By outcome: the attempt afterwards, from the one before; the machines' begin anew with each step.
ATTEMPTS = {'snooze': lambda n: n - 1, 'release': lambda n: n - 1, 'wait': lambda n: n - 1, 'stick': lambda n: 1,
            'next': lambda n: 0, 'await': lambda n: 0, 'spawn': lambda n: 0}
ENDS = {'done', 'fail', 'cancel'}
CLOCK_US = 1000  # the commit's time is read a little apart from the commit

Held = collections.namedtuple('Held', 'token until_us let_go')
Violation = collections.namedtuple('Violation', 'invariant kind text')


class Checker:
    def __init__(self, history, lease_ms):
        self.history = history
        self.lease_us = lease_ms * 1000
        self.violations = []
        self.remote = tickets.exchange(history)  # (job id, token): run by workers of a server
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
        calls = collections.defaultdict(list)  # key: those that were to enqueue it; several if its fate was not known
        for call in self.history.of('enqueue'):
            for key in call.items:
                calls[key].append(call)
        for key, mine in calls.items():
            self.enqueue(key, mine, rows[key])
        for key in set(rows) - set(calls):
            self.found(1, f'job {key} is there, and nobody enqueued it: {rows[key]}', DOUBLE)

    def enqueue(self, key, calls, found):
        told = {(int(answer[0]), len(answer) > 2) for call in calls if call.result == 'ok'
                for answer in call.answers if answer[1] == key}
        if len(told) > 1:
            self.found(1, f'job {key} was acknowledged in several ways: {sorted(told)}, {calls}', DOUBLE)
        if any(held for _, held in told):
            if found:
                self.found(7, f'job {key} is there ({found}) although its unique key was taken: {calls}', DOUBLE)
        elif len(found) > 1:
            self.found(1, f'job {key} is there {len(found)} times: {found}', DOUBLE)
        elif found and all(call.result == 'fail' for call in calls):
            self.found(1, f'job {key} is there ({found[0]}) although its enqueue failed: {calls}', DOUBLE)
        for job, held in told:
            if held:
                continue
            if not found:
                self.found(1, f'job {key} (id {job}) was acknowledged and is gone: {calls}', LOST)
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
        self.freed = {}       # job id: its last one, and by which transaction it went
        self.swept_away = {}  # (job id, token): a sweep that ended the job
        self.held = {}  # job id: a lease of its own, which counts beside that of the claim, or instead
        state = {}   # job id: (attempt, token) as the last row of the trace left it, or 'gone'
        # (job id, token): the rows that give the right to a start: the claim, then steps that kept it
        self.claimed = collections.defaultdict(list)
        self.settled = {}
        ended = collections.Counter()
        for row in self.history.trace:
            if row['what'] == 'claim':
                self.lease(row, leases)
            elif row['what'] == 'held':
                self.hold(row)
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

    def hold(self, row):
        if row['op'] == 'DELETE':
            self.freed[row['id']] = (row['xid'], self.held.pop(row['id'], None))
            return
        if row['op'] == 'UPDATE' and row['token'] == row['old_token'] and row['lease_us'] < row['old_lease_us']:
            self.found(2, f'the lease of job {row["id"]} has shrunk: {row}')
        self.held[row['id']] = Held(row['token'], row['lease_us'], row['let_go'])

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
                 row['parent_id'] is not None or
                 statement in ENQUEUES and row['guard'] is not None):
            return  # cancelled on the spot, by itself or with its parent; or its unique key was taken
        elif statement in SWEEPS:
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
            return
        lease = leases.get(token)
        own = self.held.get(job)
        if own is None and job in self.freed and self.freed[job][0] == row['xid']:
            own = self.freed[job][1]  # a sweep takes it away together with the claim, in no order
        if own is not None and own.token == token:
            lease = own.until_us if own.let_go or lease is None else max(lease, own.until_us)
        if lease is None or lease >= row['at_us']:
            self.found(2, f'job {job} was swept while the lease of its claim {token} was valid, until {lease}: {own}, {row}', DOUBLE)
        if row['op'] == 'DELETE':
            self.swept_away[job, token] = row
        elif row['attempt'] != row['old_attempt']:
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
        anywhere = collections.defaultdict(list)  # the same for workers of servers: when any server knew
        for call in self.history.of('claim') + self.history.of('settle'):
            for job, *rest in call.answers:
                if call.op == 'claim':
                    anywhere[int(job), call.items[0]].append(call.returned_us)
                elif rest[1] == 'stuck':
                    anywhere[int(job), rest[0]].append(call.returned_us)
        seen = collections.Counter()
        for start in sorted(self.history.starts, key=lambda start: (start.at_us, start.process, start.line)):
            what = f'job {start.id}, attempt {start.attempt}, was started by {start.process}'
            rights = self.claimed.get((start.id, start.token), [])
            n = seen[start.id, start.token]
            seen[start.id, start.token] += 1
            if 0 < len(rights) <= n:
                self.found(4, f'{what} once more with one token', DOUBLE)
            elif not rights or rights[n]['attempt'] != start.attempt:
                self.found(4, f'{what} without a committed claim', DOUBLE)
            elif rights[n]['commit_us'] > start.at_us + CLOCK_US:
                self.found(4, f'{what} {rights[n]["commit_us"] - start.at_us} µs before its claim was committed', DOUBLE)
            if (start.id, start.token) in self.remote:
                heard, now = sorted(anywhere[start.id, start.token]), start.at_us
            else:
                heard, now = known[start.id, start.token, start.process], start.line
            if len(heard) <= n or heard[n] > now:
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
        self.answers()
        states = {row['id']: row['state'] for row in self.history.finished}
        for job, reports in accepted.items():
            if len(reports) > 1:
                self.found(5, f'{len(reports)} terminal reports of job {job} were accepted: {reports}', DOUBLE)
            if states.get(job) != reports[0][1]:
                self.found(5, f'job {job} was reported as {reports[0][1]} and is {states.get(job)}',
                           DOUBLE if job in states else LOST)

    def answers(self):
        """What servers told their workers. A server that did not live to say so may have settled it, or a sweep ended the job: whoever
        is asked then knows the end of a job under that claim, but not who reported it, or which step of a machine it was."""
        states = {row['id']: row['state'] for row in self.history.finished}
        machines = {row['id'] for row in self.history.trace if row['what'] == 'job' and row['step'] is not None}
        for report in self.history.reports:
            row = self.settled.get((report.id, report.token)) or self.swept_away.get((report.id, report.token))
            what = f'{report.process} reported job {report.id} as {report.outcome} and was told {report.state}'
            if report.state == 'stale':
                counted = row is not None and row['op'] == 'DELETE' and row['statement'] not in SWEEPS
                if counted and report.outcome in ENDS and self.was_last(report):
                    self.found(5, f'{what}, and it counted: {row}')
            elif row is None:
                # A late report is told from one that counted by its attempt, and those of a machine begin anew with each step.
                if report.id not in machines or states.get(report.id) != report.state:
                    self.found(5, f'{what}, and the job did not change under that claim', DOUBLE)
            elif report.state in TERMINAL and row['op'] != 'DELETE' and \
                    (report.outcome in ENDS or states.get(report.id) != report.state):
                # Who asks again after a retry may be told of an end that came later.
                self.found(5, f'{what}, and it did not end: {row}', DOUBLE)

    def was_last(self, report):
        """Whether no other outcome was reported under the same claim."""
        return len({outcome for _, outcome in self.settles[report.id, report.token]} | {report.outcome}) == 1

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
        for row in self.history.relics:
            a = 'an' if row['what'][0] in 'aeiou' else 'a'
            self.found(11, f'{a} {row["what"]} is left of job {row["job_id"]}, which is over')


def check(history, lease_ms):
    """All violations, in the order of the invariants."""
    return sorted(Checker(history, lease_ms).run(), key=lambda violation: violation.invariant)
