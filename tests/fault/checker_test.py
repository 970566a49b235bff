"""The checker itself: a history without fault passes, and each way of breaking an invariant is seen as that."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from story import DOUBLE, LOST, case, tap  # noqa: E402


# --- without fault

def plain(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.settle(20, 'a', 1, 1, 't1')


def eventful(s):
    """Retried, put off, lost to a dead worker, settled by the next; a late report is refused."""
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.settle(20, 'a', 1, 1, 't1', 'retrying')
    s.claim(30, 'b', 1, 2, 't2')
    s.settle(40, 'b', 1, 2, 't2', 'scheduled')
    s.claim(50, 'b', 1, 2, 't3')
    s.sweep(1100, 'a', 1, 2, 't3')
    s.claim(1200, 'a', 1, 3, 't4')
    s.settle(1210, 'b', 1, 2, 't3', 'stale', rows=False)
    s.settle(1300, 'a', 1, 3, 't4')


def unknown_settle(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.settle(20, 'a', 1, 1, 't1', result='unknown')
    s.settle(40, 'a', 1, 1, 't1', 'stale', rows=False)


def unknown_enqueues(s):
    s.enqueue(0, 1, result='unknown', there=False)
    s.enqueue(0, 2, result=None)
    s.claim(10, 'a', 2, 1, 't1')
    s.settle(20, 'a', 2, 1, 't1')
    s.enqueue(5, 3, result='fail', there=False)


def torn(s):
    plain(s)
    s.history.add_events('dead', '5000 boot 7\n6000 call 1 enqueue k9,k')


case('a job that is done passes', plain)
case('retries, sweeps and late reports pass', eventful)
case('a settle of unknown fate that counted passes', unknown_settle)
case('enqueues of unknown fate may have happened or not', unknown_enqueues)
case('a line that kill -9 cut off is no event', torn)


# --- 1

def lost(s):
    s.enqueue(0, 1)


def unfinished(s):
    s.enqueue(0, 1)
    s.history.jobs.append({'id': 1, 'key': 'k1', 'token': None, 'attempt': 0})


def failed_but_there(s):
    plain(s)
    s.enqueue(5, 2, result='fail')
    s.claim(10, 'a', 2, 1, 't2')
    s.settle(20, 'a', 2, 1, 't2')


def twice_there(s):
    plain(s)
    s.history.jobs.append({'id': 9, 'key': 'k1', 'token': None, 'attempt': 0})


def unknown_twice(s):
    s.enqueue(0, 1, result='unknown')
    s.end(5, 1, 1, 'done')
    s.end(6, 2, 1, 'done', key='k1')


def phantom(s):
    plain(s)
    s.end(30, 7, 1, 'done')


case('1: an acknowledged job that is gone is lost', lost, (1, LOST))
case('1: an acknowledged job without an end is lost', unfinished, (1, LOST), (11, 'other'))
case('1: a failed enqueue that happened is seen', failed_but_there, (1, DOUBLE))
case('1: a job that is there twice is seen', twice_there, (1, DOUBLE))
case('1: an unknown enqueue that happened twice is seen', unknown_twice, (1, DOUBLE))
case('1: a job that nobody enqueued is seen', phantom, (1, DOUBLE))


# --- 2

def claimed_twice(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.claim(20, 'b', 1, 2, 't2', old_token='t1')
    s.settle(40, 'b', 1, 2, 't2')


def claimed_twice_untraced(s):
    """The workers alone tell it."""
    plain(s)
    s.call('b', 14, 'claim', 't2', 'ok', '1:2', took_ms=1)


def swept_alive(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.sweep(500, 'b', 1, 1, 't1')
    s.claim(600, 'b', 1, 2, 't2')
    s.settle(700, 'b', 1, 2, 't2')


def swept_renewed(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.row(900, 'claim_renew', 'claim', 'UPDATE', token='t1', lease_us=1900 * 1000, old_lease_us=1011 * 1000)
    s.sweep(1100, 'b', 1, 1, 't1')
    s.claim(1200, 'b', 1, 2, 't2')
    s.settle(1300, 'b', 1, 2, 't2')


def swept_by_id(s):
    """The claim t1 expired, but the job had been retried and was t2's by then."""
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.settle(20, 'a', 1, 1, 't1', 'retrying')
    s.claim(1000, 'b', 1, 2, 't2')
    s.sweep(1100, 'c', 1, 2, 't2')
    s.claim(1200, 'c', 1, 3, 't3')
    s.settle(1300, 'c', 1, 3, 't3')


def shrunk(s):
    plain(s)
    s.row(15, 'claim_renew', 'claim', 'UPDATE', token='t1', lease_us=500, old_lease_us=1011 * 1000)


case('2: a claim of what is claimed is seen', claimed_twice, (2, DOUBLE))
case('2: two claims within a lease are seen without the trace', claimed_twice_untraced, (2, DOUBLE))
case('2: a sweep of a valid lease is seen', swept_alive, (2, DOUBLE))
case('2: a sweep of a renewed lease is seen', swept_renewed, (2, DOUBLE))
case('2: a sweep by id only is seen', swept_by_id, (2, DOUBLE))
case('2: a lease that shrinks is seen', shrunk, (2, 'other'))


# --- 3

def attempt_stands(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.history.trace[1]['attempt'] = 0
    s.settle(20, 'a', 1, 0, 't1')


def attempt_given_back(s):
    """A retry costs an attempt."""
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.settle(20, 'a', 1, 1, 't1', 'retrying')
    s.history.trace[-2]['attempt'] = 0
    s.claim(30, 'a', 1, 1, 't2')
    s.settle(40, 'a', 1, 1, 't2')


def token_again(s):
    plain(s)
    s.enqueue(50, 2)
    s.claim(60, 'b', 2, 1, 't1')
    s.settle(70, 'b', 2, 1, 't1')


case('3: an attempt that does not rise is seen', attempt_stands, (3, 'other'))
case('3: an attempt that is given back after a retry is seen', attempt_given_back, (3, 'other'))
case('3: a token that is used again is seen', token_again, (3, 'other'))


# --- 4

def no_claim(s):
    plain(s)
    s.say('b', 30, 'start 1 2 t9')


def rolled_back_claim(s):
    plain(s)
    s.call('b', 12, 'claim', 't9', 'ok', '1:2')
    s.say('b', 30, 'start 1 2 t9')


def before_commit(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1', start=False)
    s.say('a', 13, 'start 1 1 t1')
    s.history.trace[1]['commit_us'] = 20 * 1000
    s.settle(20, 'a', 1, 1, 't1')


def before_answer(s):
    s.enqueue(0, 1)
    s.say('a', 11, 'start 1 1 t1')
    s.claim(10, 'a', 1, 1, 't1', start=False)
    s.settle(20, 'a', 1, 1, 't1')


def started_twice(s):
    plain(s)
    s.say('a', 15, 'start 1 1 t1')


def failed_claim_committed(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1', start=False, result='fail')
    s.sweep(1100, 'b', 1, 1, 't1')
    s.claim(1200, 'b', 1, 2, 't2')
    s.settle(1300, 'b', 1, 2, 't2')


case('4: a start without a claim is seen', no_claim, (4, DOUBLE))
case('4: a start after a claim that was rolled back is seen', rolled_back_claim, (4, DOUBLE))
case('4: a start before the commit is seen', before_commit, (4, DOUBLE))
case('4: a start before the answer is seen', before_answer, (4, DOUBLE))
case('4: two starts with one token are seen', started_twice, (4, DOUBLE))
case('4: a failed claim that was committed is seen', failed_claim_committed, (4, 'other'))


# --- 5

def no_fence(s):
    """A thawed worker settles what another one holds by now."""
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.sweep(1100, 'b', 1, 1, 't1')
    s.claim(1200, 'b', 1, 2, 't2')
    s.settle(1250, 'a', 1, 2, 't1', row_token='t2')
    s.settle(1300, 'b', 1, 2, 't2', 'stale', rows=False)


def two_reports(s):
    plain(s)
    s.settle(30, 'a', 1, 1, 't1', 'failed', rows=False)


def ended_twice(s):
    plain(s)
    s.row(30, 'job_settle', 'history', 'INSERT', id=1, attempt=1, state='failed')


def history_changed(s):
    plain(s)
    s.row(30, None, 'history', 'UPDATE', id=1, attempt=1, state='failed')


def other_state(s):
    plain(s)
    s.history.finished[0]['state'] = 'failed'


def back_from_the_dead(s):
    plain(s)
    s.claim(30, 'b', 1, 2, 't2')


def failed_settle_committed(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.settle(20, 'a', 1, 1, 't1', result='fail')


def called_stale(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.settle(20, 'a', 1, 1, 't1', result='fail')
    s.settle(30, 'a', 1, 1, 't1', 'stale', rows=False)


def accepted_for_nothing(s):
    """A result is not a commit."""
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.settle(20, 'a', 1, 1, 't1', rows=False)
    s.history.jobs.append({'id': 1, 'key': 'k1', 'token': 't1', 'attempt': 1})


def cancelled(s, result='ok', state='cancelled'):
    """On the spot: nobody has it."""
    s.enqueue(0, 1)
    s.call('p', 5, 'cancel', '1', result, '1')
    s.row(8, 'job_cancel', 'job', 'DELETE', id=1, old_attempt=0)
    s.end(8, 1, 0, state)


case('a job that is cancelled passes', cancelled)
case('5: a failure after an end that was asked for is seen', lambda s: cancelled(s, state='failed'), (5, 'other'))
case('2: a cancellation that is said to have failed is seen', lambda s: cancelled(s, 'fail'), (2, 'other'))
case('5: a settle with a stale token that counts is seen', no_fence, (5, DOUBLE))
case('5: two accepted terminal reports are seen', two_reports, (5, DOUBLE))
case('5: a second end is seen', ended_twice, (5, DOUBLE))
case('5: a terminal row that changes is seen', history_changed, (5, DOUBLE))
case('5: an end other than the one reported is seen', other_state, (5, DOUBLE))
case('5: a claim of an ended job is seen', back_from_the_dead, (5, DOUBLE))
case('5: a failed settle that was committed is seen', failed_settle_committed, (5, 'other'))
case('5: a report called stale although it counted is seen', called_stale, (5, 'other'))
case('5: an accepted report without an effect is seen', accepted_for_nothing, (5, DOUBLE), (5, LOST))


# --- 11

def left_running(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.history.jobs.append({'id': 1, 'key': 'k1', 'token': 't1', 'attempt': 1})
    s.history.claims.append({'token': 't1', 'expired': True})


case('11: a job left running with an expired lease is seen', left_running, (11, 'other'), (1, LOST))


def left_behind(s):
    s.history.relics.append({'what': 'signal', 'job_id': 4711})


case('11: what is left of a job that is over is seen', left_behind, (11, 'other'))

tap.end()
