"""The checker itself: jobs that servers claim and their workers run, as checker_test.py."""

import os
import sys
import uuid

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from story import DOUBLE, LEASE_MS, LOST, case, tap  # noqa: E402
from tickets import ticket  # noqa: E402

T1, T2, T3 = (str(uuid.UUID(int=n)) for n in (1, 2, 3))


def text(token, job=1, attempt=1, step=None):
    return str(uuid.UUID(bytes=bytes((0, attempt, 0)) + ticket(token, job, step)))


def claim(s, at_ms, token, attempt=1, server='s1', worker='w1', start_ms=None, **columns):
    s.claim(at_ms, server, 1, attempt, token, start=False, **columns)
    s.say(worker, start_ms or at_ms + 4, f'start 1 {attempt} {text(token, 1, attempt, columns.get("step"))}')


def report(s, at_ms, token, state, worker='w1', outcome='done', attempt=1):
    s.say(worker, at_ms, f'report 1 {text(token, 1, attempt)} {outcome} {state}')


def hold(s, at_ms, token, until_ms, op='INSERT', let_go=True, **columns):
    s.row(at_ms, 'held_put', 'held', op, id=1, token=token, lease_us=until_ms * 1000, let_go=let_go, **columns)


# --- without fault

def plain(s, told='done'):
    s.enqueue(0, 1)
    claim(s, 10, T1)
    s.settle(30, 's1', 1, 1, T1)
    report(s, 40, T1, told)


def moved(s):
    """Claimed by one server, reported to another."""
    s.enqueue(0, 1)
    claim(s, 10, T1)
    hold(s, 20, T1, 1200)
    s.settle(1100, 's2', 1, 1, T1)
    report(s, 1110, T1, 'done')


def late(s, told='stale'):
    """Its lease is over, another worker has the job, and its report is refused."""
    s.enqueue(0, 1)
    claim(s, 10, T1)
    hold(s, 20, T1, 600)
    s.row(700, 'claim_sweep', 'held', 'DELETE', id=1, old_token=T1, old_lease_us=600000, xid='x9')
    s.row(700, 'claim_sweep', 'job', 'UPDATE', id=1, old_token=T1, old_attempt=1, attempt=1, xid='x9')
    claim(s, 1100, T2, 2, 's2', 'w2')
    report(s, 1200, T1, told)
    s.settle(1300, 's2', 1, 2, T2)
    report(s, 1310, T2, 'done', 'w2', attempt=2)


def dead_server(s, told='done'):
    """It settled, and did not live to say so; another one was asked."""
    s.enqueue(0, 1)
    claim(s, 10, T1)
    s.settle(30, 's1', 1, 1, T1, result=None)
    report(s, 900, T1, told)


def swept_end(s):
    """Its end was asked for; a sweep ended it, and the worker is told."""
    s.enqueue(0, 1)
    claim(s, 10, T1)
    s.row(LEASE_MS + 100, 'claim_sweep', 'job', 'DELETE', id=1, old_token=T1, old_attempt=1)
    s.end(LEASE_MS + 100, 1, 1, 'cancelled')
    report(s, LEASE_MS + 200, T1, 'cancelled', outcome='retry')


def steps(s, twice=False):
    """A machine that keeps its claim: each step has a ticket of its own."""
    s.enqueue(0, 1)
    claim(s, 10, T1)
    s.step(20, 's1', 1, 1, T1, 'stick', step='two')
    s.say('w1', 30, f'start 1 1 {text(T1, step="two")}')
    if twice:
        s.say('w2', 32, f'start 1 1 {text(T1, step="two")}')
    s.settle(40, 's1', 1, 1, T1, step='two')
    report(s, 50, T1, 'done')


case('a job that a server claims and its worker runs passes', plain)
case('one that is reported to another server passes', moved)
case('a late report that is refused passes', late)
case('one that a server settled as the last thing it did passes', dead_server)
case('one that a sweep ended passes', swept_end)
case('a machine that goes on in the hands of one worker passes', steps)


# --- 1

def again(s, second='ok', job=1, first='unknown'):
    """One enqueue, asked for twice under an idempotency key."""
    s.call('p', 0, 'enqueue', 'k1', first, 'k1' if first != 'ok' else '1:k1')
    s.row(1, 'job_enqueue_once', 'job', 'INSERT', id=1, attempt=0, xid='x1')
    s.call('p', 5, 'enqueue', 'k1', second, f'{job}:k1' if second == 'ok' else 'k1')
    claim(s, 10, T1)
    s.settle(30, 's1', 1, 1, T1)


def again_there(s):
    again(s)
    s.end(50, 2, 1, 'done', key='k1')


case('a call that is made again and answered passes', again)
case('a call of unknown fate may have worked though the next was refused', lambda s: again(s, 'fail'))
case('1: a call that is answered with two ids is seen', lambda s: again(s, job=7, first='ok'), (1, DOUBLE))
case('1: a call that worked twice is seen', again_there, (1, DOUBLE))
case('1: one that was refused twice and is there is seen', lambda s: again(s, 'fail', first='fail'), (1, DOUBLE))


# --- 2

def sweep_at(s, at_ms, until_ms, let_go):
    s.enqueue(0, 1)
    claim(s, 10, T1)
    hold(s, 20, T1, until_ms, let_go=let_go)
    s.sweep(at_ms, 's2', 1, 1, T1)
    claim(s, LEASE_MS + 500, T2, 2)
    s.settle(LEASE_MS + 600, 's1', 1, 2, T2)


def shrunk(s):
    plain(s)
    hold(s, 20, T1, 900)
    hold(s, 25, T1, 500, 'UPDATE', old_token=T1, old_lease_us=900000)


case('a sweep after its own lease passes where the server let go of it', lambda s: sweep_at(s, 600, 500, True))
case('2: a sweep while its own lease is valid is seen', lambda s: sweep_at(s, LEASE_MS + 100, LEASE_MS + 300, True), (2, DOUBLE))
case('2: a sweep while the server still renews the claim is seen', lambda s: sweep_at(s, 600, 500, False), (2, DOUBLE))
case('2: a lease of a job that shrinks is seen', shrunk, (2, 'other'))


# --- 4

def sent_twice(s):
    plain(s)
    s.say('w2', 20, f'start 1 1 {text(T1)}')


def no_such_ticket(s):
    plain(s)
    s.say('w2', 20, f'start 1 1 {text(T3)}')


def other_job(s):
    plain(s)
    s.say('w2', 20, f'start 1 1 {text(T1, job=2)}')


def before_claim(s):
    s.enqueue(0, 1)
    claim(s, 10, T1, start_ms=11)
    s.settle(30, 's1', 1, 1, T1)


case('4: a job that is sent to two workers is seen', sent_twice, (4, DOUBLE))
case('4: a step that is sent twice is seen', lambda s: steps(s, True), (4, DOUBLE))
case('4: a start with a ticket of no claim is seen', no_such_ticket, (4, DOUBLE))
case('4: a start with the ticket of another job is seen', other_job, (4, DOUBLE))
case('4: a job that is sent before any server knows of its claim is seen', before_claim, (4, DOUBLE))


# --- 5

def told_for_nothing(s):
    """And nobody ever settled it."""
    s.enqueue(0, 1)
    claim(s, 10, T1)
    report(s, 40, T1, 'done')
    s.history.jobs.append({'id': 1, 'key': 'k1', 'token': T1, 'attempt': 1})


def told_done(s):
    """It was put back."""
    s.enqueue(0, 1)
    claim(s, 10, T1)
    s.settle(20, 's1', 1, 1, T1, 'retrying')
    report(s, 40, T1, 'done')
    claim(s, 50, T2, 2)
    s.settle(60, 's1', 1, 2, T2)


def told_later(s, state='done'):
    """Put back; when the worker asks again the job has ended."""
    s.enqueue(0, 1)
    claim(s, 10, T1)
    s.settle(20, 's1', 1, 1, T1, 'retrying', result=None)
    claim(s, 50, T2, 2, 's2', 'w2')
    s.settle(60, 's2', 1, 2, T2)
    report(s, 70, T1, state, outcome='retry')


case('a worker that asks again after the end of its job passes', told_later)
case('5: one that is told of another end is seen', lambda s: told_later(s, 'failed'), (5, DOUBLE))
case('5: a late report that is accepted is seen', lambda s: late(s, 'done'), (5, DOUBLE))
case('5: a report that is answered and not settled is seen', told_for_nothing, (5, DOUBLE), (1, LOST))
case('5: a worker that is told of an end that was none is seen', told_done, (5, DOUBLE))
case('5: a report called stale although it counted is seen', lambda s: plain(s, 'stale'), (5, 'other'))
case('5: so it is if the server died', lambda s: dead_server(s, 'stale'), (5, 'other'))

tap.end()
