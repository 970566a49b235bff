"""moments: counts in a history the moments at which a bug could have shown itself. A moment that never came proves nothing, so a long
run that missed one fails. Pure."""

import bisect
import collections

# Name: what is said of it.
MOMENTS = {
    'claimed': 'a server killed between the commit of a claim and sending its jobs',
    'sent': 'a server killed just after sending jobs',
    'settling': 'a server killed with outcomes that were not sent to the database',
    'settled': 'a server killed between the commit of a settle and the answer to the worker',
    'cut before the commit': 'a connection cut before the commit',
    'cut during the commit': 'a connection cut during the commit',
    'cut before the answer': 'a connection cut between the commit and its answer',
    'commit refused': 'a claim or settle whose statements succeeded and whose commit failed',
    'unknown fate': 'a claim or settle of which the worker never learned whether it was committed',
    'swept': 'a job taken back from an expired claim',
    'swept beside a lease': 'an expired claim swept while one of its jobs had a valid lease of its own',
    'swept after a reclaim': 'an expired claim swept while a job that had left it was claimed by another',
    'late settle': 'a settle refused because its claim was over',
    'moved': 'a job that got a lease of its own',
    'report repeated': 'a report answered as stale',
    'late commit': 'a job committed when the marks of its queue were past it',
    'very late commit': 'one committed more than two polls after that',
    'stray': 'a job that a worker found behind its marks',
    'low raised beside a claim': 'the low mark of the ledger raised while a claim older than one that had ended was alive',
    'swept at the low mark': 'such a claim swept: a low mark that had passed it would have hidden it',
    'moved on': 'a claim that a renewal gave a new place in the ledger',
    'settled where it moved to': 'such a claim settled',
}
LATE_US = 600000  # two polls (engine/marks.h) and a little


def count(history, network):
    """network: what the relays counted."""
    counts = collections.Counter({name: history.deaths[name] for name in ('claimed', 'sent', 'settling', 'settled')})
    for name in ('cut before the commit', 'cut during the commit', 'cut before the answer'):
        counts[name] = network.get(name, 0)
    for call in history.calls:
        if call.op in ('claim', 'settle'):
            counts['commit refused'] += call.result == 'fail'
            counts['unknown fate'] += call.result == 'unknown'
        if call.op == 'settle':
            counts['late settle'] += sum(answer[2] == 'stale' for answer in call.answers)
    counts['report repeated'] = sum(report.state == 'stale' for report in history.reports)
    counts['stray'] = history.counters['strays']
    walk(history.trace, counts)
    walk_marks(history.trace, counts)
    walk_ledger(history.trace, counts)
    return counts


def walk(trace, counts):
    """The tables as they were at each sweep that ended a claim."""
    members = collections.defaultdict(set)  # token: jobs that were claimed with it
    owner = {}  # job id: token
    held = {}   # job id: (token, until)
    for row in trace:
        if row['what'] == 'job':
            if row['token'] is not None:
                members[row['token']].add(row['id'])
            owner[row['id']] = row['token']
            counts['swept'] += row['statement'] == 'claim_sweep' and row['old_token'] is not None
        elif row['what'] == 'held':
            counts['moved'] += row['op'] == 'INSERT'
            held[row['id']] = (row['token'], row['lease_us'] or 0)
        elif row['what'] == 'claim' and row['op'] == 'DELETE' and row['statement'] == 'claim_sweep':
            token = row['token']
            jobs = members[token]
            counts['swept beside a lease'] += any(
                owner[job] == token and job in held and held[job][0] == token and held[job][1] > row['at_us'] for job in jobs)
            counts['swept after a reclaim'] += any(owner[job] not in (None, token) for job in jobs)


def walk_marks(trace, counts):
    """Jobs that became visible behind others that had been claimed: same queue and priority, both in lanes or both not."""
    passed = collections.defaultdict(lambda: ([], []))  # where the marks were: due times that only grow, and since when
    jobs = [row for row in trace if row['what'] == 'job' and row['due_us'] is not None and row['commit_us'] is not None]
    for row in sorted(jobs, key=lambda row: row['commit_us']):
        dues, times = passed[row['queue'], row['priority'], row['lane'] is None]
        if row['op'] == 'INSERT':
            first = bisect.bisect_right(dues, row['due_us'])
            if first < len(dues):
                counts['late commit'] += 1
                counts['very late commit'] += row['commit_us'] - times[first] > LATE_US
        elif row['token'] is not None and row['old_token'] is None and (not dues or row['due_us'] > dues[-1]):
            dues.append(row['due_us'])
            times.append(row['commit_us'])


def walk_ledger(trace, counts):
    """Where claims are in the ledger, and its low mark."""
    live = {}        # token: place
    moved = set()    # tokens
    exposed = set()  # tokens that were alive when the low mark was raised, below a place that was empty already
    ended = 0        # the highest place that was given up
    for row in trace:
        token = row['token']
        if row['what'] == 'low':
            beside = {one for one, place in live.items() if place < ended}
            counts['low raised beside a claim'] += bool(beside)
            exposed |= beside
        elif row['what'] == 'claim' and row['op'] != 'DELETE':
            if row['op'] == 'UPDATE' and live.get(token, row['ledger']) != row['ledger']:
                counts['moved on'] += 1
                moved.add(token)
            live[token] = row['ledger']
        elif row['what'] == 'claim':
            ended = max(ended, live.pop(token, None) or 0)
            counts['swept at the low mark'] += row['statement'] == 'claim_sweep' and token in exposed
            counts['settled where it moved to'] += (row['statement'] or '').startswith('job_settle') and token in moved


def missed(counts):
    """What is to be said of the moments that did not come."""
    return [f'{text} ({name})' for name, text in MOMENTS.items() if not counts[name]]
