"""The checker itself: machines, unique keys, signals and deadlines, as checker_test.py."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from history import merged  # noqa: E402
from story import DOUBLE, LOST, Story, case, tap  # noqa: E402


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


# --- what is in side rows is put into those of the job

def machine(s, at_ms, op='UPDATE', statement='job_settle_next', **columns):
    s.row(at_ms, statement, 'machine', op, id=1, **columns)


def told_apart(s, starts=1):
    """A step goes on at once: of the job nothing changes. Then it ends, and its machine goes after it."""
    s.enqueue(0, 1)
    s.row(1, 'job_enqueue_options', 'option', 'INSERT', id=1, guard='g')
    s.claim(10, 'a', 1, 1, 't1')
    s.call('a', 20, 'settle', '1:t1:stick', 'ok', '1:t1:stuck')
    machine(s, 21, token='t1', old_token='t1', attempt=1, old_attempt=1, step='two', joins=2)
    for i in range(starts):
        s.say('a', 25 + i, 'start 1 1 t1')
    s.settle(30, 'a', 1, 1, 't1')
    machine(s, 31, 'DELETE', 'job_settle', step='two', joins=2)


def side_rows(s, starts=1):
    told_apart(s, starts)
    s.history.trace = merged(s.history.trace)


def merges(s):
    """As which rows of the job."""
    told_apart(s)
    machine(s, 40, statement='job_settle_step', token='t2', old_token='t2', attempt=0, old_attempt=0, step='three')
    s.row(40, 'job_settle_step', 'job', 'UPDATE', id=1, old_token='t2', attempt=0, old_attempt=1)
    rows = merged(s.history.trace)
    return [(row['op'], row['statement'], row['step'], row['joins'], row['guard']) for row in rows if row['what'] == 'job']


story = Story()
found = merges(story)
tap.result('rows of a job say what its machine and its options said', [] if found == [
    ('INSERT', 'job_enqueue', None, None, 'g'), ('UPDATE', 'job_claim', None, None, 'g'),
    ('UPDATE', 'job_settle_next', 'two', 2, 'g'), ('DELETE', 'job_settle', 'two', 2, 'g'),
    ('UPDATE', 'job_settle_step', 'three', None, 'g')] else [str(found)])
case('a machine that goes on at once and changes nothing of its job passes', side_rows)
case('4: a step of such a machine that is started twice is seen', lambda s: side_rows(s, 2), (4, DOUBLE))


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
    s.row(at_ms, 'job_enqueue_options', 'job', 'INSERT', id=2, attempt=0, guard='g', xid='x2')
    s.row(at_ms, 'job_enqueue_options', 'job', 'DELETE', id=2, old_attempt=0, guard='g', xid='x2')
    s.settle(30, 'a', 1, 1, 't1', guard='g')
    s.history.finished[0]['key'] = 'k1~u'


def loser_there(s):
    loser(s)
    s.end(40, 3, 1, 'done', key='k2~u')


def loser_again(s):
    """The call is made again, with its idempotency key, when the winner is gone: the answer is that of then."""
    loser(s)
    s.call('p', 60, 'enqueue', 'k2~u', 'ok', '1:k2~u:held')


case('a loser that asks again with its idempotency key passes', loser_again)
case('a unique key that is free again passes', lambda s: unique(s, 40))
case('a loser that learns who won passes', loser)
case('7: two live jobs with one key are seen', lambda s: unique(s, 20), (7, DOUBLE))
case('7: a loser that is told of nobody is seen', lambda s: loser(s, told=2), (7, 'other'))
case('7: a loser that is told of one with another key is seen', lambda s: loser(s, key='k2~v'), (7, 'other'))
case('7: a loser that is told of a dead one is seen', lambda s: loser(s, at_ms=60), (7, 'other'))
case('7: a loser that is there all the same is seen', loser_there, (7, DOUBLE))


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


# --- 12

def deadline(s, deadline_ms, claim_ms=40, due_ms=40, start=True, late=False):
    """A machine that waits from 21 ms on."""
    until = {'deadline_us': deadline_ms * 1000}
    s.enqueue(0, 1, **until)
    s.claim(10, 'a', 1, 1, 't1', **until)
    s.step(20, 'a', 1, 1, 't1', 'await', waits_for='signal', due_us=due_ms and due_ms * 1000, **until)
    s.claim(claim_ms, 'b', 1, 1, 't2', start=start, **until)
    s.settle(claim_ms + 10, 'b', 1, 1, 't2', 'failed' if late else 'done', **until)
    s.history.finished[-1]['late'] = late


case('a machine that is done before its deadline passes', lambda s: deadline(s, 100))
case('one that fails at its deadline without being started passes',
     lambda s: deadline(s, 100, 101, 100, start=False, late=True))
case('12: a machine that is started after its deadline is seen', lambda s: deadline(s, 100, 150, 100), (12, 'other'))
case('12: one that fails by a deadline before it has come is seen',
     lambda s: deadline(s, 100, start=False, late=True), (12, 'other'))
case('12: a wait beyond the deadline is seen', lambda s: deadline(s, 100, 50, 150), (12, LOST))
case('12: a wait without end beyond the deadline is seen', lambda s: deadline(s, 100, 50, None), (12, LOST))

tap.end()
