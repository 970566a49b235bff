"""The checker itself: lanes, as checker_test.py."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from story import DOUBLE, case, tap  # noqa: E402


def in_lane(s, second_ms, lane='l1', jobs=2):
    """The first is there from 10 to 30 ms."""
    where = {'queue': 'q', 'lane': lane}
    for job in range(1, jobs + 1):
        s.enqueue(0, job, **where)
    s.claim(10, 'a', 1, 1, 't1', **where)
    for job in range(2, jobs + 1):
        if second_ms < 30:
            s.claim(second_ms, 'b', job, 1, f't{job}', **where)
    s.settle(30, 'a', 1, 1, 't1', **where)
    for job in range(2, jobs + 1):
        if second_ms >= 30:
            s.claim(second_ms, 'b', job, 1, f't{job}', **where)
        s.settle(second_ms + 10, 'b', job, 1, f't{job}', **where)


def lane_of_the_dead(s):
    """A sweep lets the next one in."""
    where = {'queue': 'q', 'lane': 'l1'}
    s.enqueue(0, 1, **where)
    s.enqueue(0, 2, **where)
    s.claim(10, 'a', 1, 1, 't1', **where)
    s.sweep(1100, 'b', 1, 1, 't1')
    s.history.trace[-2].update(where)
    s.claim(1200, 'b', 2, 1, 't2', **where)
    s.settle(1210, 'b', 2, 1, 't2', **where)
    s.claim(1300, 'b', 1, 2, 't3', **where)
    s.settle(1310, 'b', 1, 2, 't3', **where)


def late_in_lane(s):
    """While the first runs the second fails by its deadline."""
    where = {'queue': 'q', 'lane': 'l1'}
    s.enqueue(0, 1, **where)
    s.enqueue(0, 2, deadline_us=15000, **where)
    s.claim(10, 'a', 1, 1, 't1', **where)
    s.claim(20, 'b', 2, 1, 't2', start=False, deadline_us=15000, **where)
    s.settle(25, 'b', 2, 1, 't2', 'failed', deadline_us=15000, **where)
    s.settle(30, 'a', 1, 1, 't1', **where)


def together(s, ends_ms, second='a', swept_ms=None):
    """One claim takes two of a lane; the first handler ends at ends_ms, the second begins at 30 ms, maybe elsewhere."""
    where = {'queue': 'q', 'lane': 'l1'}
    s.enqueue(0, 1, **where)
    s.enqueue(0, 2, **where)
    s.call('a', 10, 'claim', 't1', 'ok', '1:1,2:1')
    for job in (1, 2):
        s.row(11, 'job_claim_lanes', 'job', 'UPDATE', id=job, token='t1', attempt=1, old_attempt=0, **where)
    s.row(11, 'job_claim_lanes', 'claim', 'INSERT', token='t1', lease_us=2000000)
    said = sorted([(13, 'start 1 1 t1'), (ends_ms, 'end 1 1 t1 done'), (30, 'start 2 1 t1'), (50, 'end 2 1 t1 done')])
    for at_ms, text in said:
        s.say(second if text.split()[1] == '2' else 'a', at_ms, text)
    s.call('a', 60, 'settle', '1:t1:done,2:t1:done', 'ok', '1:t1:done,2:t1:done')
    for job in (1, 2):
        s.row(61, 'job_settle_done', 'job', 'DELETE', id=job, old_token='t1', old_attempt=1, **where)
        s.end(61, job, 1, 'done')
    s.row(61, 'job_settle_done', 'claim', 'DELETE', token='t1')


def order_in(s, lane, first, then, back='retrying', there_ms=2):
    """Jobs 1 and 2, of which the second is committed at there_ms; `first` is claimed at 10 ms and comes back, `then` at 40 ms."""
    where = {'queue': 'q', 'lane': lane}
    s.enqueue(0, 1, **where)
    s.enqueue(1, 2, **where)
    s.history.trace[0]['commit_us'] = there_ms * 1000
    s.claim(10, 'a', first, 1, 't1', **where)
    s.settle(20, 'a', first, 1, 't1', back, **where)
    again = 2 if then == first and back == 'retrying' else 1
    s.claim(40, 'a', then, again, 't2', **where)
    s.settle(50, 'a', then, again, 't2', **where)
    if back == 'done':
        return
    other = 3 - then
    n = (2 if back == 'retrying' else 1) if other == first else 1
    s.claim(60, 'a', other, n, 't3', **where)
    s.settle(70, 'a', other, n, 't3', **where)


def rate(s, times_ms):
    where = {'queue': 'q', 'lane': 'trickle0'}
    for n, at_ms in enumerate(times_ms, 1):
        s.enqueue(0, n, **where)
        s.claim(at_ms, 'a', n, 1, f't{n}', **where)
        s.settle(at_ms + 10, 'a', n, 1, f't{n}', **where)


def comes_back(s, keeps_place):
    """Four starts of three jobs: one of them is tried again at once."""
    where = {'queue': 'q', 'lane': 'trickle0'}
    for n in (1, 2, 3):
        s.enqueue(0, n, **where)
        s.claim(10, 'a', n, 1, f't{n}', **where)
        s.row(11, 'job_claim_lanes', 'lane', 'UPDATE', holders=list(range(1, n + 1)), **where)
        s.settle(12, 'a', n, 1, f't{n}', 'retrying' if n == 3 else 'done', **where)
    s.row(13, 'lane_leave', 'lane', 'UPDATE', xid='leave', holders=[3] if keeps_place else [], **where)
    s.claim(14, 'a', 3, 2, 't4', **where)
    s.settle(15, 'a', 3, 2, 't4', **where)


case('a strict lane in which one follows the other passes', lambda s: order_in(s, 'row0', 1, 2, 'done'))
case('a retry lets others pass in a row', lambda s: order_in(s, 'row0', 1, 2))
case('whoever was committed too late is passed', lambda s: order_in(s, 'row0', 2, 1, there_ms=30))
case('a retry comes before others in a tail', lambda s: order_in(s, 'tail0', 1, 1, 'retrying') or s.enqueue(80, 3, there=False, result='fail'))
case('6: one that overtakes in a strict lane is seen', lambda s: order_in(s, 'row0', 2, 1), (6, 'other'))
case('6: one that is put off in a row and overtaken is seen', lambda s: order_in(s, 'row0', 1, 2, 'scheduled'), (6, 'other'))
case('6: one that passes a retry in a tail is seen', lambda s: order_in(s, 'tail0', 1, 2), (6, 'other'))
case('a burst and then one at a time pass in a lane with a rate', lambda s: rate(s, [10, 10, 10, 140, 265, 390]))
case('6: one too many in a burst is seen', lambda s: rate(s, [10, 11, 12, 13]), (6, 'other'))
case('one that still has its place comes back without a token', lambda s: comes_back(s, True))
case('6: one that left and comes back without a token is seen', lambda s: comes_back(s, False), (6, 'other'))
case('6: a rate that is too high is seen', lambda s: rate(s, [10, 10, 10] + list(range(110, 1000, 100))), (6, 'other'))
case('6: two that a claim took together and that run at once in two processes are seen',
     lambda s: together(s, 40, 'b'), (6, DOUBLE))
case('two that a claim took together and that run one after the other pass', lambda s: together(s, 20))
case('6: two that a claim took together and that run at once are seen', lambda s: together(s, 40), (6, DOUBLE))
case('a lane in which one follows the other passes', lambda s: in_lane(s, 40))
case('a wide lane lets three in', lambda s: in_lane(s, 20, 'wide1', 3))
case('a lane whose holder died is free after the sweep', lane_of_the_dead)
case('one that is claimed after its deadline needs no place', late_in_lane)
case('6: two at a time in a lane are seen', lambda s: in_lane(s, 20), (6, DOUBLE))
case('6: four at a time in a wide lane are seen', lambda s: in_lane(s, 20, 'wide1', 4), (6, DOUBLE))

tap.end()
