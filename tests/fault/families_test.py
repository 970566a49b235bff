"""The checker itself: parents and children, as checker_test.py."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from story import DOUBLE, LOST, case, tap  # noqa: E402


def family(s, join_ms=40, result='2,3', second=True):
    """Two children end at 31 and 33 ms."""
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.step(20, 'a', 1, 1, 't1', 'spawn', joins=1, step='first')
    for child in (2, 3) if second else (2,):
        s.row(21, 'job_settle_step', 'job', 'INSERT', id=child, attempt=0, parent_id=1, join_of=1)

    def join():
        s.claim(join_ms, 'a', 1, 1, 't4', joins=1, step='first')
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
    s.settle(50, 'a', 1, 1, 't4', joins=1, step='first')
    s.history.finished[-1].update(kind='family', result=result)


def cancelled_parent(s):
    s.call('p', 25, 'cancel', '1', 'ok', '1')
    family(s, join_ms=26, result='2')


case('a parent that joins its children passes', family)
case('a parent whose end was asked for need not wait', cancelled_parent)
case('8: a parent that goes on before a child has ended is seen', lambda s: family(s, join_ms=26), (8, DOUBLE))
case('8: a child that is joined twice is seen', lambda s: family(s, result='2,3,2'), (8, DOUBLE))
case('8: a child that is never joined is seen', lambda s: family(s, result='2'), (8, LOST))
case('8: a second join of one spawn is seen', lambda s: family(s, result='2;3'), (8, DOUBLE))
case('8: a child of somebody else is seen', lambda s: family(s, result='2,3', second=False), (8, DOUBLE))


def clan(s, children, claim_ms, at=0, flags=0, due_ms=None, shown='', over_ms=200, left_ms=None, deadline_us=None,
         seen_to_ms=None):
    """children: when each ends and as what; (None, None): not before the parent goes on at over_ms. left_ms: when those are
    claimed then. seen_to_ms: they were locked when the parent went on, and orphans until then."""
    parent = {'joins': 1, 'step': 'first', 'join_at': at, 'join_flags': flags, 'deadline_us': deadline_us}
    s.enqueue(0, 1)
    s.claim(10, 'a', 1, 1, 't1')
    s.step(20, 'a', 1, 1, 't1', 'spawn', **parent)
    for n in range(len(children)):
        s.row(21, 'job_settle_step', 'job', 'INSERT', id=2 + n, attempt=0, parent_id=1, join_of=1)
    events = [(at_ms, 2 + n, state) for n, (at_ms, state) in enumerate(children) if at_ms is not None]
    for at_ms, job, state in sorted(events + [(claim_ms, 1, None), (over_ms, 1, 'done')]):
        if job == 1 and state is None:
            s.claim(at_ms, 'a', 1, 1, 't9', due_us=(due_ms or 30) * 1000, **parent)
        elif job == 1:
            s.settle(at_ms, 'a', 1, 1, 't9', **parent)
            s.history.finished[-1].update(kind='clan', result=shown)
        else:
            family_child(s, at_ms, job, state)
    for n, (at_ms, _) in enumerate(children):
        if at_ms is None and seen_to_ms is not None:
            s.row(over_ms, 'job_settle', 'orphan', 'INSERT', id=2 + n, parent_id=1)
            s.row(seen_to_ms, 'lanes_mend', 'orphan', 'DELETE', id=2 + n, parent_id=1)
        if at_ms is None:
            family_child(s, left_ms or over_ms + 10, 2 + n, 'done', left_ms is not None)


def family_child(s, at_ms, job, state, start=True):
    """Claimed just before it ends at at_ms."""
    s.claim(at_ms - 5, 'b', job, 1, f't{job}', start=start, parent_id=1, join_of=1)
    s.settle(at_ms - 1, 'b', job, 1, f't{job}', state, parent_id=1, join_of=1)
    s.history.finished[-1].update(parent_id=1, key=f'k1.{job}')


case('a quorum passes', lambda s: clan(s, [(30, 'done'), (60, 'done')], 40, at=1, due_ms=30, shown='2'))
case('the first failure ends a join that asks for it',
     lambda s: clan(s, [(30, 'failed'), (60, 'done')], 40, flags=1, due_ms=30, shown='2'))
case('children that are cancelled with their parent, and not started, pass',
     lambda s: clan(s, [(30, 'done'), (None, None)], 40, at=1, flags=2, shown='2'))
case('one that was locked just then may be started until it is seen to',
     lambda s: clan(s, [(30, 'done'), (None, None)], 40, at=1, flags=2, shown='2', left_ms=300, seen_to_ms=310))
case('one that is left alone may run on',
     lambda s: clan(s, [(30, 'done'), (None, None)], 40, at=1, shown='2', left_ms=300))
case('a deadline ends a join', lambda s: clan(s, [(60, 'done')], 40, deadline_us=40000, shown=''))
case('8: a quorum that is not waited for is seen',
     lambda s: clan(s, [(30, 'done'), (60, 'done'), (60, 'done')], 40, at=1, shown='2'), (8, DOUBLE))
case('8: a failure that ends a join unasked is seen',
     lambda s: clan(s, [(30, 'failed'), (60, 'done')], 40, flags=2, shown='2'), (8, DOUBLE))
case('8: a parent that is not called by a quorum is seen',
     lambda s: clan(s, [(30, 'done'), (60, 'done')], 70, at=1, due_ms=60, shown='2,3'), (8, LOST))
case('8: a parent that is not called by the first failure is seen',
     lambda s: clan(s, [(30, 'failed'), (60, 'done')], 70, flags=1, due_ms=60, shown='2,3'), (8, LOST))
case('8: a child that had ended and is not shown is seen',
     lambda s: clan(s, [(30, 'done'), (32, 'done')], 50, at=1, due_ms=30, shown='3'), (8, LOST))
case('8: a child that is shown before it has ended is seen',
     lambda s: clan(s, [(30, 'done'), (60, 'done')], 40, at=1, due_ms=30, shown='2,3'), (8, DOUBLE))
case('8: a child that is started after its parent cancelled it is seen',
     lambda s: clan(s, [(30, 'done'), (None, None)], 40, at=1, flags=2, shown='2', left_ms=300), (8, 'other'))
case('8: one that was locked and is started after it was seen to is seen',
     lambda s: clan(s, [(30, 'done'), (None, None)], 40, at=1, flags=2, shown='2', left_ms=300, seen_to_ms=250), (8, 'other'))

tap.end()
