"""relations: the invariants about what jobs have to do with each other: unique keys and signals here, lanes and children in
files of their own (checker.py lists them). Pure; each function takes the history and `found(invariant, text, kind)`."""

import collections

import deadlines
import families
import lanes
from lanes import CLAIMS

LOST, DOUBLE, OTHER = 'lost', 'double', 'other'
SLACK_US = 1000  # a commit's time is read a little apart from the commit


# --- 7

class Life:
    """A job with a unique key, from the commit that made it to the one that ended it."""

    def __init__(self, row):
        self.job = row['id']
        self.guard = row['guard']
        self.xid = row['xid']
        self.from_us = row['commit_us']
        self.until_us = None

    def __repr__(self):
        return f'job {self.job} ({self.from_us} to {self.until_us})'


def guards(history, found):
    lives = {}
    for row in history.trace:
        if row['what'] != 'job' or row['guard'] is None:
            continue
        if row['op'] == 'INSERT':
            lives[row['id']] = Life(row)
        elif row['op'] == 'DELETE' and row['id'] in lives:
            if lives[row['id']].xid == row['xid']:
                del lives[row['id']]  # the key was taken: it never was
            else:
                lives[row['id']].until_us = row['commit_us']
    by_guard = collections.defaultdict(list)
    for life in lives.values():
        by_guard[life.guard].append(life)
    for held in by_guard.values():
        held.sort(key=lambda life: life.from_us)
        for first, second in zip(held, held[1:]):
            if first.until_us is None or first.until_us > second.from_us:
                found(7, f'two live jobs had one unique key: {first} and {second}', DOUBLE)
    losers(history, lives, found)


def losers(history, lives, found):
    """A job with a unique key has it behind a ~ in its own key."""
    keys = {row['id']: row['key'] for row in history.jobs + history.finished}
    first = {}  # key: when it was asked for; a call that is made again gets the answer it would have got then
    for call in history.of('enqueue'):
        for key in call.items:
            first[key] = min(first.get(key, call.called_us), call.called_us)
    for call in history.of('enqueue'):
        for job, key, *held in call.answers if call.result == 'ok' else []:
            if not held:
                continue
            life = lives.get(int(job))
            what = f'{key} was told that job {job} holds its unique key'
            if life is None or keys.get(int(job), '').partition('~')[2] != key.partition('~')[2]:
                found(7, f'{what}, and it does not: {call}')
            elif life.from_us > call.returned_us + SLACK_US or \
                    life.until_us is not None and life.until_us < first[key] - SLACK_US:
                found(7, f'{what}, and it was not alive: {life}, {call}')


# --- 9

class Sent:
    """One signal, by the number it carries, and the calls that sent it."""

    def __init__(self, job, name):
        self.job = job
        self.name = name
        self.calls = []

    def acknowledged_us(self):
        return min((call.returned_us for call in self.calls if call.result == 'ok'), default=None)

    def refused(self):
        return all(call.result == 'fail' for call in self.calls)


def signals(history, found):
    sent = {}
    for call in history.of('signal'):
        job, name, number = call.items[0]
        sent.setdefault(number, Sent(int(job), name)).calls.append(call)
    of_job = collections.defaultdict(dict)
    for number, signal in sent.items():
        of_job[signal.job][number] = signal
    looked = wakes(history, of_job, found)
    for row in history.finished:
        if row.get('kind') == 'order' and row['state'] == 'done':
            taken(row, of_job[row['id']], looked.get(row['id']), found)


def taken(row, sent, looked_us, found):
    how, _, numbers = row['result'].partition('|')
    numbers = [number for number in numbers.split(',') if number]
    twice = [number for number, n in collections.Counter(numbers).items() if n > 1]
    if twice:
        found(9, f'job {row["id"]} took signals {twice} more than once: {numbers}', DOUBLE)
    for number in numbers:
        if number not in sent or sent[number].refused():
            found(9, f'job {row["id"]} took signal {number}, which nobody sent or which was refused', DOUBLE)
    for number, signal in sent.items():
        at_us = signal.acknowledged_us()
        # Who lost its patience had looked at a moment; what came later it cannot have seen.
        if at_us is not None and number not in numbers and (how == 'L' or at_us < looked_us):
            found(9, f'signal {number} was acknowledged, and job {row["id"]} never took it: {row["result"]}', LOST)


def wakes(history, of_job, found):
    """Who slept until its wait was over, though a signal that it waited for had been acknowledged before. Returns when
    each job was claimed last."""
    looked = {}
    shown = set()  # numbers: what a step was shown and left does not wake it again
    for row in history.trace:
        if row['what'] == 'signal' and (row['shown'] or row['op'] == 'DELETE'):
            shown.add(row['state'])
        if row['what'] != 'job' or row['statement'] not in CLAIMS or row['token'] is None:
            continue
        looked[row['id']] = row['began_us']
        if row['awaits'] is None or row['wait_until_us'] is None or row['due_us'] != row['wait_until_us']:
            continue
        for number, signal in of_job.get(row['id'], {}).items():
            at_us = signal.acknowledged_us()
            if number not in shown and signal.name in row['awaits'] and at_us is not None and \
                    at_us < row['wait_until_us'] - SLACK_US:
                found(9, f'job {row["id"]} was not woken by signal {number}, '
                         f'{row["wait_until_us"] - at_us} µs before its time was over: {row}', LOST)
    return looked


def check(history, found):
    lanes.check(history, found)
    guards(history, found)
    families.check(history, found)
    signals(history, found)
    deadlines.check(history, found)
