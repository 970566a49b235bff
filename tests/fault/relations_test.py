"""The checker itself: machines, lanes, unique keys, children and signals, as checker_test.py."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from story import DOUBLE, LOST, case, tap  # noqa: E402


# --- 3 and 4: machines that keep their claim

def sticky(s, starts=2):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.step(20, 'a', 1, 1, 't1', 'stick')
    for i in range(starts):
        s.say('a', 25 + i, 'start 1 1 t1')
    s.step(30, 'a', 1, 1, 't1', 'await')
    s.claim(40, 'b', 1, 1, 't2')
    s.settle(50, 'b', 1, 1, 't2')


def sticky_unknown(s):
    """It counted, and was sent again."""
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.step(20, 'a', 1, 1, 't1', 'stick', result='unknown')
    s.step(30, 'a', 1, 1, 't1', 'stick')
    s.say('a', 35, 'start 1 1 t1')
    s.settle(40, 'a', 1, 1, 't1')


def sticky_before_answer(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.say('a', 20, 'start 1 1 t1')
    s.step(20, 'a', 1, 1, 't1', 'stick')
    s.settle(40, 'a', 1, 1, 't1')


def step_keeps_claim(s):
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.step(20, 'a', 1, 1, 't1', 'next')
    s.history.trace[3].update(token='t1')
    s.settle(40, 'a', 1, 0, 't1')


case('a machine that keeps its claim and then waits passes', lambda s: sticky(s, 1))
case('a step of unknown fate that was sent again passes', sticky_unknown)
case('4: a step that is started twice is seen', sticky, (4, DOUBLE))
case('4: a step that is started before its commit is known is seen', sticky_before_answer, (4, DOUBLE))
case('2: a step that was to give up its claim and did not is seen', step_keeps_claim, (2, 'other'))


# --- 6

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


def together(s, ends_ms):
    """One claim takes two of a lane; the first handler ends at ends_ms, the second begins at 30 ms."""
    where = {'queue': 'q', 'lane': 'l1'}
    s.enqueue(0, 1, **where)
    s.enqueue(0, 2, **where)
    s.call('a', 10, 'claim', 't1', 'ok', '1:1,2:1')
    for job in (1, 2):
        s.row(11, 'job_claim_lanes', 'job', 'UPDATE', id=job, token='t1', attempt=1, old_attempt=0, **where)
    s.row(11, 'job_claim_lanes', 'claim', 'INSERT', token='t1', lease_us=2000000)
    said = sorted([(13, 'start 1 1 t1'), (ends_ms, 'end 1 1 t1 done'), (30, 'start 2 1 t1'), (50, 'end 2 1 t1 done')])
    for at_ms, text in said:
        s.say('a', at_ms, text)
    s.call('a', 60, 'settle', '1:t1:done,2:t1:done', 'ok', '1:t1:done,2:t1:done')
    for job in (1, 2):
        s.row(61, 'job_settle_done', 'job', 'DELETE', id=job, old_token='t1', old_attempt=1, **where)
        s.end(61, job, 1, 'done')
    s.row(61, 'job_settle_done', 'claim', 'DELETE', token='t1')


case('two that a claim took together and that run one after the other pass', lambda s: together(s, 20))
case('6: two that a claim took together and that run at once are seen', lambda s: together(s, 40), (6, DOUBLE))
case('a lane in which one follows the other passes', lambda s: in_lane(s, 40))
case('a wide lane lets three in', lambda s: in_lane(s, 20, 'wide1', 3))
case('a lane whose holder died is free after the sweep', lane_of_the_dead)
case('6: two at a time in a lane are seen', lambda s: in_lane(s, 20), (6, DOUBLE))
case('6: four at a time in a wide lane are seen', lambda s: in_lane(s, 20, 'wide1', 4), (6, DOUBLE))


# --- 7

def unique(s, second_ms):
    """The first is alive from 1 to 31 ms."""
    s.enqueue(0, 1, 'k1~u', guard='g')
    s.claim(10, 'a', 1, 1, 't1', guard='g')
    if second_ms < 30:
        s.enqueue(second_ms, 2, 'k2~u', guard='g')
    s.settle(30, 'a', 1, 1, 't1', guard='g')
    s.history.finished[0]['key'] = 'k1~u'
    if second_ms >= 30:
        s.enqueue(second_ms, 2, 'k2~u', guard='g')
    s.claim(50, 'a', 2, 1, 't2', guard='g')
    s.settle(60, 'a', 2, 1, 't2', guard='g')
    s.history.finished[1]['key'] = 'k2~u'


def loser(s, at_ms=15, told=1, key='k2~u'):
    s.enqueue(0, 1, 'k1~u', guard='g')
    s.claim(10, 'a', 1, 1, 't1', guard='g')
    s.call('p', at_ms, 'enqueue', key, 'ok', f'{told}:{key}:held')
    s.row(at_ms, 'job_enqueue_rich', 'job', 'INSERT', id=2, attempt=0, guard='g', xid='x2')
    s.row(at_ms, 'job_enqueue_rich', 'job', 'DELETE', id=2, old_attempt=0, guard='g', xid='x2')
    s.settle(30, 'a', 1, 1, 't1', guard='g')
    s.history.finished[0]['key'] = 'k1~u'


def loser_there(s):
    loser(s)
    s.end(40, 3, 1, 'done', key='k2~u')


case('a unique key that is free again passes', lambda s: unique(s, 40))
case('a loser that learns who won passes', loser)
case('7: two live jobs with one key are seen', lambda s: unique(s, 20), (7, DOUBLE))
case('7: a loser that is told of nobody is seen', lambda s: loser(s, told=2), (7, 'other'))
case('7: a loser that is told of one with another key is seen', lambda s: loser(s, key='k2~v'), (7, 'other'))
case('7: a loser that is told of a dead one is seen', lambda s: loser(s, at_ms=60), (7, 'other'))
case('7: a loser that is there all the same is seen', loser_there, (7, DOUBLE))


# --- 8

def family(s, join_ms=40, result='2,3', second=True):
    """Two children end at 31 and 33 ms."""
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.step(20, 'a', 1, 1, 't1', 'spawn', joins=1)
    for child in (2, 3) if second else (2,):
        s.row(21, 'job_settle_step', 'job', 'INSERT', id=child, attempt=0, parent_id=1)

    def join():
        s.claim(join_ms, 'a', 1, 1, 't4', joins=1)
    for child in (2, 3):
        if join_ms < 30 and child == 3:
            join()
        if child == 3 and not second:
            continue
        s.claim(22 + child, 'b', child, 1, f't{child}', parent_id=1)
        s.settle(28 + 2 * child - 2, 'b', child, 1, f't{child}', parent_id=1)
        s.history.finished[-1].update(parent_id=1, key=f'k1.{child}')
    if join_ms >= 30:
        join()
    s.settle(50, 'a', 1, 1, 't4', joins=1)
    s.history.finished[-1].update(kind='family', result=result)


def cancelled_parent(s):
    s.call('p', 25, 'cancel', '1', 'ok', '1')
    family(s, join_ms=26)


case('a parent that joins its children passes', family)
case('a parent whose end was asked for need not wait', cancelled_parent)
case('8: a parent that goes on before a child has ended is seen', lambda s: family(s, join_ms=26), (8, DOUBLE))
case('8: a child that is joined twice is seen', lambda s: family(s, result='2,3,2'), (8, DOUBLE))
case('8: a child that is never joined is seen', lambda s: family(s, result='2'), (8, LOST))
case('8: a second join of one spawn is seen', lambda s: family(s, result='2;3'), (8, DOUBLE))
case('8: a child of somebody else is seen', lambda s: family(s, result='2,3', second=False), (8, DOUBLE))


# --- 9

def order(s, result, how='L', shown=True, woken_ms=40):
    """Waits from 21 ms for at most a second; signal n1 is acknowledged at 32 ms."""
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.step(20, 'a', 1, 1, 't1', 'await')
    s.signal(30, 1, 'n1')
    s.signal(33, 1, 'n2', result='fail')
    s.signal(36, 1, 'n3', result='unknown')
    s.claim(woken_ms, 'b', 1, 1, 't2', awaits=['a'], due_us=woken_ms * 1000, wait_until_us=1021 * 1000)
    if shown:
        s.row(woken_ms + 5, 'job_settle_step', 'signal', 'DELETE', id=1, signal_id=1, name='a', state='n1', shown=False)
    s.settle(woken_ms + 10, 'b', 1, 1, 't2')
    s.history.finished[-1].update(kind='order', result=f'{how}|{result}')


def late_signal(s):
    """Acknowledged after the last look of a machine that lost its patience."""
    order(s, 'n1', 'T')
    s.signal(45, 1, 'n4')


def early_signal(s):
    order(s, '', 'T')


case('a signal that is taken once passes', lambda s: order(s, 'n1'))
case('one of unknown fate may have come', lambda s: order(s, 'n1,n3'))
case('one that came after the last look may be left', late_signal)
case('9: a signal that is taken twice is seen', lambda s: order(s, 'n1,n1'), (9, DOUBLE))
case('9: a signal that was refused and is taken is seen', lambda s: order(s, 'n1,n2'), (9, DOUBLE))
case('9: a signal that nobody sent is seen', lambda s: order(s, 'n1,n9'), (9, DOUBLE))
case('9: a signal that is never taken is lost', lambda s: order(s, 'n3'), (9, LOST))
case('9: one that was there at the last look and is not taken is lost', early_signal, (9, LOST))
case('9: a signal that does not wake who waits for it is seen', lambda s: order(s, 'n1', woken_ms=1021), (9, LOST))

tap.end()
