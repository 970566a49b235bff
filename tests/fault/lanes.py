"""lanes: invariant 6: how many run in a lane at a time, in which order, and how fast. Pure; each function takes the history
and `found(invariant, text, kind)`. What a lane allows is in its name (trace.sql)."""

import collections

from history import End

CLAIMS = {'job_claim', 'job_claim_lanes'}
DOUBLE, OTHER = 'double', 'other'
WIDE = 3         # at a time in a lane whose name begins with "wide"; in others one
RATE, BURST = 8, 3  # in a second, and at once, in those whose name begins with "trickle"


def most(lane):
    return WIDE if lane.startswith('wide') else 100 if lane.startswith('trickle') else 1


def is_strict(lane):
    return lane.startswith(('row', 'tail'))


def holds(lane):
    return lane.startswith('tail')


def is_late(row):
    """It is claimed after its deadline, to fail: it is not run, and needs no place."""
    return row['deadline_us'] is not None and row['deadline_us'] <= row['since_us']


def check(history, found):
    inside(history, found)
    order(history, found)
    rates(history, found)


def inside(history, found):
    """Rows of one lane are in the order of their commits: whoever enters or leaves locks the lane. A claim may take several of a
    lane with one place together."""
    holders = collections.defaultdict(dict)
    places = {}
    left = {}  # (job id, token): when the claim was over
    for row in history.trace:
        if row['what'] != 'job' or row['lane'] is None:
            continue
        lane = (row['queue'], row['lane'])
        if row['op'] == 'DELETE' or row['token'] is None:
            holders[lane].pop(row['id'], None)
            left[row['id'], row['old_token']] = row['commit_us']
        elif row['old_token'] is None and not is_late(row):
            others = [job for job, token in holders[lane].items() if most(row['lane']) > 1 or token != row['token']]
            if len(others) >= most(row['lane']):
                found(6, f'job {row["id"]} entered lane {lane} while {sorted(others)} ran in it: {row}', DOUBLE)
            holders[lane][row['id']] = row['token']
            if most(row['lane']) == 1:
                places[row['id'], row['token']] = lane
    one_after_the_other(history, places, left, found)


def one_after_the_other(history, places, left, found):
    """Those that one claim took together, in whatever processes their handlers run: a server's workers share its claims. A run is over
    when its handler says so, or when the claim is: then whatever it still does counts for nothing."""
    running = collections.defaultdict(set)
    for event in sorted(history.starts + history.ends, key=lambda e: (e.at_us, e.process, e.line)):
        lane = places.get((event.id, event.token))
        if lane is None:
            continue
        here = running[event.token, lane]
        if isinstance(event, End):
            here.discard(event.id)
            continue
        others = [job for job in here - {event.id} if left.get((job, event.token), event.at_us + 1) > event.at_us]
        if others:
            found(6, f'job {event.id} began while {sorted(others)} ran in lane {lane}: {event}', DOUBLE)
        here.add(event.id)


class Place:
    """A job of a strict lane as the last row of the trace left it."""

    def __init__(self, row):
        self.there_us = row['commit_us']
        self.attempt, self.token, self.step, self.waits_for = 0, None, None, None

    def begun(self):
        return self.attempt > 0 or self.step is not None

    def is_held_up(self):
        """To be tried again, and nobody may pass."""
        return self.token is None and self.attempt > 0 and self.waits_for is None


def order(history, found):
    """Nobody enters a strict lane before an earlier one that was there and had not begun. Where retries hold the lane, nobody enters
    while one of them waits for its next try. What was committed after a claim began cannot have been seen by it."""
    lanes = collections.defaultdict(dict)  # lane: job id: where it is
    for row in history.trace:
        if row['what'] != 'job' or row['lane'] is None or not is_strict(row['lane']):
            continue
        jobs = lanes[row['queue'], row['lane']]
        if row['op'] == 'DELETE':
            jobs.pop(row['id'], None)
            continue
        if row['op'] == 'INSERT':
            jobs[row['id']] = Place(row)
        place = jobs.get(row['id'])
        if place is None:
            continue
        if row['statement'] in CLAIMS and row['token'] is not None and place.token is None and not is_late(row):
            passed(row, jobs, history.seen_us, found)
        place.attempt, place.token, place.step, place.waits_for = \
            row['attempt'], row['token'], row['step'], row['waits_for']


def passed(row, jobs, seen_us, found):
    hold = holds(row['lane'])
    if hold and jobs[row['id']].attempt > 0:
        return  # it holds the lane itself
    for job, place in jobs.items():
        if job == row['id'] or place.token is not None or place.there_us >= row['began_us'] - seen_us:
            continue
        if job < row['id'] and not place.begun():
            found(6, f'job {row["id"]} entered the strict lane {row["lane"]} before job {job}: {row}', OTHER)
        elif hold and place.is_held_up():
            found(6, f'job {row["id"]} entered lane {row["lane"]}, which job {job} holds for its next try: {row}', OTHER)


class Bucket:
    """A lane with a rate: who has a place in it, and how many entered with a token."""

    def __init__(self):
        self.holders, self.xid = set(), None
        self.before = set()  # the transaction that changed it last
        self.entered, self.fewest = 0, None

    def change(self, row):
        if row['xid'] != self.xid:
            self.before, self.xid = self.holders, row['xid']
        self.holders = set(row['holders'])

    def had_place(self, row):
        return row['id'] in (self.before if row['xid'] == self.xid else self.holders)

    def enter(self, row):
        """How many more than there were tokens."""
        n = self.entered
        self.entered += 1
        before = n - RATE * row['began_us'] / 1000000
        self.fewest = before if self.fewest is None else min(self.fewest, before)
        return n + 1 - RATE * row['at_us'] / 1000000 - self.fewest - BURST


def rates(history, found):
    """A bucket of tokens: whatever part of the time is looked at, no more enter than the burst and what the rate gives
    meanwhile. The clock was read between the beginning of a claim and its row in the trace. One that comes back while it still
    has its place needs no token: a worker gave it back, or died and the lane has not been mended yet."""
    buckets = collections.defaultdict(Bucket)
    for row in history.trace:
        if row['lane'] is None or not row['lane'].startswith('trickle'):
            continue
        bucket = buckets[row['queue'], row['lane']]
        if row['what'] == 'lane':
            bucket.change(row)
        elif row['what'] == 'job' and row['statement'] in CLAIMS and row['old_token'] is None and row['token'] is not None and \
                not is_late(row) and not bucket.had_place(row):
            more = bucket.enter(row)
            if more > 0.01:
                found(6, f'job {row["id"]} entered lane {row["lane"]} too soon: {more:.2f} above its rate: {row}', OTHER)
