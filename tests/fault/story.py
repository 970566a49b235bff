"""story: made-up histories for the tests of the checker, told step by step. `case` tells one and compares what is found."""

import os
import sys

sys.dont_write_bytecode = True
root = sys.argv[1]
sys.path[:0] = [os.path.join(root, 'tests', 'style'), os.path.join(root, 'tests', 'fault')]
from checker import DOUBLE, LOST, check  # noqa: E402
from history import History  # noqa: E402
from tap import Tap  # noqa: E402

LEASE_MS = 1000
tap = Tap()

# Times in the tests are ms; the history's are µs.


class Story:
    """A history told step by step. Processes say what they saw; the database what it did."""

    def __init__(self):
        self.lines = {}
        self.history = History()
        self.history.seen_us = 1000  # what is told here is told by the millisecond
        self.calls = 0

    def say(self, process, at_ms, text):
        self.lines.setdefault(process, []).append(f'{at_ms * 1000} {text}')

    def call(self, process, at_ms, op, items, result='ok', answers='-', took_ms=2):
        self.calls += 1
        self.say(process, at_ms, f'call {self.calls} {op} {items}')
        if result:
            self.say(process, at_ms + took_ms, f'ret {self.calls} {op} {result} {answers}')

    def row(self, at_ms, statement, what, op, **columns):
        row = dict.fromkeys(('id', 'token', 'old_token', 'attempt', 'old_attempt', 'state', 'lease_us', 'old_lease_us',
                             'queue', 'lane', 'guard', 'parent_id', 'joins', 'awaits', 'due_us', 'wait_until_us',
                             'signal_id', 'name', 'shown', 'consumed', 'xid', 'step', 'waits_for', 'deadline_us', 'join_of',
                             'kids', 'join_at', 'join_flags', 'let_go', 'holders', 'priority', 'ledger'))
        row.update(seq=len(self.history.trace) + 1, at_us=at_ms * 1000, began_us=at_ms * 1000, since_us=at_ms * 1000, commit_us=at_ms * 1000,
                   statement=statement, what=what, op=op)
        row.update(columns)
        self.history.trace.append(row)

    # What both sides agree about.

    def enqueue(self, at_ms, job, key=None, result='ok', there=True, **columns):
        key = key or f'k{job}'
        self.call('p', at_ms, 'enqueue', key, result, f'{job}:{key}' if result == 'ok' else key)
        if there:
            self.row(at_ms + 1, 'job_enqueue', 'job', 'INSERT', id=job, attempt=0, xid=f'x{job}', **columns)

    def claim(self, at_ms, worker, job, attempt, token, start=True, result='ok', old_token=None, **columns):
        self.call(worker, at_ms, 'claim', token, result, f'{job}:{attempt}' if result == 'ok' else '-')
        self.row(at_ms + 1, 'job_claim', 'job', 'UPDATE', id=job, token=token, old_token=old_token, attempt=attempt,
                 old_attempt=attempt - 1, **columns)
        self.row(at_ms + 1, 'job_claim', 'claim', 'INSERT', token=token, lease_us=(at_ms + 1 + LEASE_MS) * 1000)
        if start:
            self.say(worker, at_ms + 3, f'start {job} {attempt} {token}')

    def settle(self, at_ms, worker, job, attempt, token, state='done', result='ok', rows=True, row_token=None, end=True,
               **columns):
        outcome = {'failed': 'fail', 'cancelled': 'cancel', 'retrying': 'retry', 'scheduled': 'snooze'}.get(state, state)
        self.call(worker, at_ms, 'settle', f'{job}:{token}:{outcome}', result,
                  f'{job}:{token}:{state}' if result == 'ok' else '-')
        if not rows:
            return
        back = {'op': 'DELETE'} if state in ('done', 'failed', 'cancelled') else {
            'op': 'UPDATE', 'attempt': attempt - (state == 'scheduled')}
        self.row(at_ms + 1, 'job_settle', 'job', id=job, old_token=row_token or token, old_attempt=attempt, **back,
                 **columns)
        self.row(at_ms + 1, 'job_settle', 'claim', 'DELETE', token=token)
        if back['op'] == 'DELETE' and end:
            self.end(at_ms + 1, job, attempt, state)

    def step(self, at_ms, worker, job, attempt, token, outcome, result='ok', **columns):
        """A machine goes on; stick: with its claim."""
        stick = outcome == 'stick'
        self.call(worker, at_ms, 'settle', f'{job}:{token}:{outcome}', result,
                  f'{job}:{token}:{"stuck" if stick else "on"}' if result == 'ok' else '-')
        self.row(at_ms + 1, 'job_settle_step', 'job', 'UPDATE', id=job, token=token if stick else None, old_token=token,
                 attempt=1 if stick else 0, old_attempt=attempt, **columns)
        if not stick:
            self.row(at_ms + 1, 'job_settle_step', 'claim', 'DELETE', token=token)

    def signal(self, at_ms, job, number, name='a', result='ok'):
        self.call('p', at_ms, 'signal', f'{job}:{name}:{number}', result, f'{job}:{name}:{number}')

    def sweep(self, at_ms, worker, job, attempt, token):
        self.call(worker, at_ms, 'sweep', '-', 'ok', f'{job}:retrying')
        self.row(at_ms + 1, 'claim_sweep', 'job', 'UPDATE', id=job, old_token=token, old_attempt=attempt, attempt=attempt)
        self.row(at_ms + 1, 'claim_sweep', 'claim', 'DELETE', token=token)

    def end(self, at_ms, job, attempt, state, key=None, **columns):
        self.row(at_ms, 'job_settle', 'history', 'INSERT', id=job, attempt=attempt, state=state)
        self.history.finished.append({'id': job, 'key': key or f'k{job}', 'state': state, 'attempt': attempt, **columns})

    def check(self):
        for process, lines in self.lines.items():
            self.history.add_events(process, ''.join(line + '\n' for line in lines))
        return check(self.history, LEASE_MS)


def case(name, tell, *expected):
    """expected: (invariant, kind) that must be among what is found; none at all when there is nothing expected."""
    story = Story()
    tell(story)
    found = story.check()
    seen = {(violation.invariant, violation.kind) for violation in found}
    missing = set(expected) - seen
    problems = [f'not seen: {want}; seen: {sorted(seen)}' for want in missing]
    if not expected:
        problems = [f'{violation.invariant}: {violation.text}' for violation in found]
    tap.result(name, problems)
