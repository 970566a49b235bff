"""families: invariant 8: parents and their children. Pure; takes the history and `found(invariant, text, kind)`."""

import collections
import math

from lanes import CLAIMS

LOST, DOUBLE, OTHER = 'lost', 'double', 'other'
SLACK_US = 1000
FAIL_FAST, CANCEL = 1, 2  # join flags


class Child:
    def __init__(self):
        self.ended_us = None  # committed
        self.ended_seq = None
        self.state = None


class Join:
    """One spawn: its children, what it waits for, and the parent's claims until it goes on."""

    def __init__(self, parent, row):
        self.parent = parent
        self.row = row
        self.children = {}
        self.claims = []
        self.over = None  # the row with which the parent went on, or ended

    def needed(self):
        return len(self.children) - (self.row['join_at'] or 0)

    def is_fast(self):
        return (self.row['join_flags'] or 0) & FAIL_FAST

    def ready(self, by):
        """Whether it may be over when only those of its children have ended that `by` says."""
        ended = [child for child in self.children.values() if child.ended_seq is not None and by(child)]
        return len(ended) >= self.needed() or self.is_fast() and any(child.state != 'done' for child in ended)

    def ready_us(self):
        """When it was; None: never."""
        times = sorted(child.ended_us for child in self.children.values() if child.ended_us is not None)
        for at_us in times:
            if self.ready(lambda child: child.ended_us is not None and child.ended_us <= at_us):
                return at_us
        return None


def read(history):
    """Joins by parent and number; which join a child belongs to; the rows of children."""
    joins, of_child, rows = {}, {}, collections.defaultdict(list)
    states = {row['id']: row['state'] for row in history.trace if row['what'] == 'history'}
    number = {}  # parent: its join that is not over
    for row in history.trace:
        if row['what'] != 'job':
            continue
        if row['parent_id'] is not None:
            rows[row['id']].append(row)
            if row['op'] == 'INSERT':
                of_child[row['id']] = (row['parent_id'], row['join_of'])
            elif row['op'] == 'DELETE':
                child = child_of(joins, of_child, row['id'])
                if child is not None:
                    child.ended_us, child.ended_seq, child.state = row['commit_us'], row['seq'], states.get(row['id'])
        if row['joins'] is None:
            continue
        key = (row['id'], row['joins'])
        current = joins.get(number.get(row['id']))
        if key not in joins:
            if current is not None and current.over is None:
                current.over = row
            joins[key] = Join(row['id'], row)
            number[row['id']] = key
        elif row['statement'] in CLAIMS and row['old_token'] is None and row['token'] is not None:
            if current.over is None:
                current.claims.append(row)
        elif current.over is None and (row['op'] == 'DELETE' or row['step'] != current.row['step']):
            current.over = row
    return joins, of_child, rows


def child_of(joins, of_child, job):
    join = joins.get(of_child.get(job))
    return join.children.setdefault(job, Child()) if join is not None else None


def check(history, found):
    joins, of_child, rows = read(history)
    for child, place in of_child.items():  # those that never ended, too
        if place in joins:
            joins[place].children.setdefault(child, Child())
    cancelled = {int(call.items[0]) for call in history.of('cancel')}  # waits for nobody any more
    of_parent = collections.defaultdict(list)
    for (parent, _), join in joins.items():
        of_parent[parent].append(join)
    for parent, mine in of_parent.items():
        for join in mine:
            waited(join, parent in cancelled, found)
    there = {row['id'] for row in history.jobs} | {row['id'] for row in history.finished}
    gone = sorted(set(of_child) - there)
    if gone:
        found(1, f'children {gone} are gone', LOST)
    for row in history.finished:
        if row.get('kind') in ('family', 'clan') and row['state'] == 'done':
            joined(row, of_parent[row['id']], history.seen_us, found)
    left_over(history, joins, rows, found)


def waited(join, cancelled, found):
    """Not before its time; and not long after it."""
    for n, claim in enumerate(join.claims):
        late = claim['deadline_us'] is not None and claim['began_us'] >= claim['deadline_us'] - SLACK_US
        if cancelled or late:
            continue
        if not join.ready(lambda child: child.ended_seq < claim['seq']):
            early = [job for job, child in join.children.items() if child.ended_seq is None or child.ended_seq > claim['seq']]
            found(8, f'job {join.parent} went on before enough of its children had ended; {early} had not: {claim}', DOUBLE)
        ready_us = join.ready_us()
        # In a lane it waits for that, too; and a second claim is for another try.
        if n == 0 and claim['lane'] is None and ready_us is not None and claim['due_us'] is not None and \
                claim['due_us'] > max(ready_us, join.row['commit_us']) + SLACK_US:
            found(8, f'job {join.parent} was not called when its children were ready, '
                     f'{claim["due_us"] - ready_us} µs before it was due: {claim}', LOST)


def joined(row, joins, seen_us, found):
    rounds = [[int(child) for child in part.split(',') if child] for part in row['result'].split(';')]
    shown = [child for part in rounds for child in part]
    if len(rounds) != len(joins):
        found(8, f'job {row["id"]} spawned {len(joins)} times and joined {len(rounds)} times: {row["result"]}', DOUBLE)
        return
    for part, join in zip(rounds, joins):
        if len(set(shown)) != len(shown) or set(part) - set(join.children):
            found(8, f'job {row["id"]} joined {part}, and its children are {sorted(join.children)}', DOUBLE)
        elif join.claims:
            seen(row, part, join, seen_us, found)


def seen(row, part, join, seen_us, found):
    """What had ended when the parent was claimed last is shown; what had not is not."""
    claim = join.claims[-1]
    for job, child in join.children.items():
        if child.ended_us is not None and child.ended_us < claim['began_us'] - seen_us:
            if job not in part:
                found(8, f'job {row["id"]} never joined its child {job}: {part}', LOST)
        elif job in part and (child.ended_seq is None or child.ended_seq > claim['seq']):
            found(8, f'job {row["id"]} joined its child {job} before that had ended: {part}', DOUBLE)


def left_over(history, joins, rows, found):
    """Whose parent went on, or ended, and wanted the rest cancelled, is not started any more. One that was locked just then, by whatever
    transaction, is noted as an orphan meanwhile, and not started any more when it has been seen to."""
    rights = {}  # (job id, token): the claim
    for job in rows:
        for row in rows[job]:
            if row['statement'] in CLAIMS and row['token'] is not None:
                rights[job, row['token']] = row
    starts = collections.defaultdict(list)
    for start in history.starts:
        if (start.id, start.token) in rights:
            starts[start.id].append(rights[start.id, start.token])
    seen_to = {}
    for row in history.trace:
        if row['what'] == 'orphan':
            seen_to[row['id']] = row['commit_us'] if row['op'] == 'DELETE' else math.inf
    for join in joins.values():
        if join.over is None or not (join.row['join_flags'] or 0) & CANCEL:
            continue
        for job in join.children:
            end = max(join.over['commit_us'], seen_to.get(job, 0)) + history.seen_us
            after = [claim for claim in starts[job] if claim['began_us'] > end]
            if after:
                found(8, f'job {job} was started although its parent {join.parent} had gone on without it and wanted it '
                         f'cancelled: {after[0]}', OTHER)
