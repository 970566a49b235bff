"""moments: counts in a history the moments at which a bug could have shown itself. A moment that never came proves nothing, so a long
run that missed one fails. Pure."""

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
}


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
    walk(history.trace, counts)
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


def missed(counts):
    """What is to be said of the moments that did not come."""
    return [f'{text} ({name})' for name, text in MOMENTS.items() if not counts[name]]
