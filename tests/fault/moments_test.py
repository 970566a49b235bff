"""moments_test: the end of a fault is repeated until it worked, and the moments that matter are counted. usage: moments_test.py ROOT"""

import argparse
import collections
import itertools

from story import Story, tap
import faults
from moments import MOMENTS, count, missed
from stage import Failure


class Stage:
    """A cluster that answers as it is told to, and remembers what it was asked."""

    sockets = '/nowhere'

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def ask(self, sql):
        self.asked.append(sql)
        return next(self.answers)


class Bare(faults.Faults):
    """Faults without anybody who suffers from them."""

    def __init__(self, answers):
        self.cluster = Stage(answers)
        self.later = []
        self.dice = argparse.Namespace(uniform=lambda low, high: low)

    def relays(self):
        return []


def refused_updates():
    """The server is down, then it takes the update and the answer is lost, then it is there."""
    soak = Bare(iter([[], None, None, None, ['1'], [], ['0']]))
    soak.refuse_commits()
    soak.end_all()
    reads = [sql for sql in soak.cluster.asked if sql.startswith('select')]
    return [] if len(reads) == 3 and not soak.later else [f'asked {soak.cluster.asked}, left {soak.later}']


def never_ending():
    soak = Bare(itertools.chain([[]], itertools.repeat(None)))
    soak.refuse_commits()
    now = soak.later[0].at
    try:
        soak.do_later(now)
        soak.do_later(now + faults.END_S)
        soak.do_later(now + 2 * faults.END_S + 1)
    except Failure as failure:
        return [] if 'could not end the fault refuse_commits' in str(failure) else [str(failure)]
    return ['nobody complained']


def once():
    """What is no end of a fault happens once, whatever it returns."""
    soak, calls = Bare(iter([])), []
    soak.after(0, 0, lambda: calls.append(1))
    soak.end_all()
    return [] if calls == [1] else [f'{len(calls)} times']


def counted(tell):
    story = Story()
    tell(story)
    for process, lines in story.lines.items():
        story.history.add_events(process, ''.join(line + '\n' for line in lines))
    return count(story.history, {})


def expect(counts, **expected):
    return [f'{name}: {counts[name.replace("_", " ")]} instead of {n}' for name, n in expected.items()
            if counts[name.replace('_', ' ')] != n]


def beside(story, until_ms=5000, kept='t1'):
    story.enqueue(0, 1)
    story.claim(10, 'a', 1, 1, 't1')
    story.row(20, 'held_take', 'held', 'INSERT', id=1, token=kept, lease_us=until_ms * 1000, let_go=False)
    story.row(2000, 'claim_sweep', 'claim', 'DELETE', token='t1')


def reclaimed(story):
    for job in (1, 2):
        story.enqueue(0, job)
        story.claim(10 + job, 'a', job, 1, 't1')
    story.settle(20, 'a', 1, 1, 't1', 'retrying')
    story.claim(30, 'b', 1, 2, 't2')
    story.sweep(2000, 'c', 2, 1, 't1')


def late(story, by_ms, priority=4):
    """Job 1 is due before job 2, which was claimed when job 1 was committed."""
    story.enqueue(0, 1, queue='q', priority=4, due_us=1000)
    story.enqueue(5, 2, queue='q', priority=priority, due_us=5000)
    story.claim(10, 'a', 2, 1, 't1', queue='q', priority=priority, due_us=5000)
    story.history.trace[0]['commit_us'] = (11 + by_ms) * 1000


def ledger(story, age=True):
    """The claim t1 is older than t2, which has ended when the low mark is raised; then it is swept, or moves and is settled."""
    for job, token in ((1, 't1'), (2, 't2'), (3, 't3')):
        story.enqueue(0, job)
        story.claim(10 + job, 'a', job, 1, token)
        story.history.trace[-1]['ledger'] = job
    story.settle(20, 'a', 2, 1, 't2')
    story.row(30, 'claim_low_store', 'low', 'UPDATE', ledger=1)
    if age:
        story.row(40, 'claim_renew', 'claim', 'UPDATE', token='t3', ledger=2000)
    story.settle(50, 'a', 3, 1, 't3')
    story.sweep(2000, 'c', 1, 1, 't1')


def stops(story):
    story.say('a', 1, 'dies settled')
    story.say('b', 1, 'stopped 3')
    story.say('c', 1, 'stopped 0')


tap.result('the end of a fault is repeated until what it came to was read', refused_updates())
tap.result('a fault that cannot be ended ends the run, and is not called lost', never_ending())
tap.result('what is no end of a fault is not repeated', once())
tap.result('a sweep beside a valid lease is counted', expect(counted(beside), swept_beside_a_lease=1))
tap.result('one beside a lease that is over is not',
           expect(counted(lambda story: beside(story, until_ms=1000)), swept_beside_a_lease=0))
tap.result('one beside the lease of another claim is not',
           expect(counted(lambda story: beside(story, kept='t9')), swept_beside_a_lease=0))
tap.result('a sweep of a claim that a job left for another is counted',
           expect(counted(reclaimed), swept_after_a_reclaim=1, swept=1))
tap.result('a job that is committed behind the marks is counted',
           expect(counted(lambda story: late(story, 100)), late_commit=1, very_late_commit=0))
tap.result('and by how much', expect(counted(lambda story: late(story, 700)), late_commit=1, very_late_commit=1))
tap.result('one that was there before is not', expect(counted(lambda story: late(story, -5)), late_commit=0))
tap.result('one of another priority is not', expect(counted(lambda story: late(story, 700, priority=9)), late_commit=0))
tap.result('a claim below which the low mark must stay is counted, and what becomes of it',
           expect(counted(ledger), low_raised_beside_a_claim=1, swept_at_the_low_mark=1, moved_on=1,
                  settled_where_it_moved_to=1))
tap.result('a claim that stays where it is has not moved',
           expect(counted(lambda story: ledger(story, age=False)), moved_on=0, settled_where_it_moved_to=0))
deaths = Story()
stops(deaths)
for process, lines in deaths.lines.items():
    deaths.history.add_events(process, ''.join(line + '\n' for line in lines))
tap.result('processes that stop say what they leave', [] if (deaths.history.left, deaths.history.stopped) == (3, 2) else ['no'])
tap.result('a moment that never came is named',
           [] if len(missed(collections.Counter({'settled': 1}))) == len(MOMENTS) - 1 and
           any('(moved)' in text for text in missed(collections.Counter())) else ['it is not'])
tap.end()
