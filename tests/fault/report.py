"""report: what is said about a soak run: what was done, what became of it, and the verdict."""

import collections

from checker import DOUBLE, LOST

SHOWN_MAX = 10  # violations


def say(options, text):
    print('\n'.join(('# ' if options.tap else '') + line for line in text.splitlines()), flush=True)


def counts(counter):
    return ', '.join(f'{n} {name}' for name, n in sorted(counter.items()) if n) or 'none'


def network(soak):
    counted = collections.Counter()
    for relay in soak.relays():
        counted.update(relay.counts)
    return counted


def describe(options, soak, history, moments, took_s):
    results = collections.Counter()
    for call in history.of('enqueue'):
        results[call.result] += len(call.items)
    states = collections.Counter(row['state'] for row in history.finished)
    answers = collections.Counter(answer[2] for call in history.of('settle') for answer in call.answers)
    swept = sum(row['statement'] == 'claim_sweep' for row in history.trace if row['what'] == 'job')
    unknown = collections.Counter(call.op for call in history.calls if call.result == 'unknown')
    say(options, f'faults: {counts(soak.injected)}\n'
                 f'network: {counts(network(soak))}\n'
                 f'processes: {history.processes}\n'
                 f'enqueued: {results["ok"]}, taken back or refused {results["fail"]}, unknown {results["unknown"]}\n'
                 f'ended: {counts(states)}\n'
                 f'on the way: {len(history.starts)} starts, {answers["retrying"]} retried, {answers["scheduled"]} put '
                 f'off, {answers["ready"]} given back, {swept} swept, {answers["stale"]} stale settles\n' +
                 through_servers(soak, history) +
                 machines(history, answers) +
                 lanes_and_keys(history) +
                 f'calls of unknown fate: {counts(unknown)}\n'
                 f'left to their lease: {history.left}, by {history.stopped} processes that stopped\n'
                 f'moments: {counts(moments)}\n'
                 f'drained {took_s:.1f} s after the last fault')


def through_servers(soak, history):
    if not soak.servers:
        return ''
    remote = sum(start.process.startswith('remote') for start in history.starts)
    states = collections.Counter(report.state for report in history.reports)
    moved = sum(row['what'] == 'held' and row['op'] == 'INSERT' for row in history.trace)
    calls = [call for call in history.of('enqueue') if call.process.startswith('caller')]
    keys = collections.Counter(str(call.items) for call in calls)
    return (f'through servers: {remote} starts, {len(history.reports)} reports answered, of which {states["stale"]} stale; '
            f'{moved} jobs got a lease of their own; {len(calls)} calls to enqueue, of which {len(calls) - len(keys)} '
            f'repeated\n')


def machines(history, answers):
    kinds = collections.Counter(row['kind'] for row in history.finished)
    sent = collections.Counter(call.result for call in history.of('signal'))
    children = sum(row['parent_id'] is not None for row in history.finished)
    joins = collections.Counter()
    for row in history.trace:
        if row['what'] == 'job' and row['statement'] == 'job_settle_step' and row['kids'] is not None and row['token'] is None:
            joins['quorum'] += bool(row['join_at'])
            joins['fail fast'] += bool((row['join_flags'] or 0) & 1)
            joins['cancel the rest'] += bool((row['join_flags'] or 0) & 2)
    late = sum(bool(row['late']) for row in history.finished)
    return (f'machines: {kinds["order"]} orders, {sent["ok"]} signals sent, {sent["fail"]} taken back or refused; '
            f'{kinds["family"]} families, {kinds["clan"]} clans, {children} children, joins: {counts(joins)}; '
            f'{late} past their deadline; {answers["stuck"]} steps in the claim of the one before\n')


def lanes_and_keys(history):
    lanes = collections.Counter()
    for row in history.trace:
        if row['what'] == 'job' and row['op'] == 'DELETE' and row['lane'] is not None:
            lanes[row['lane'].rstrip('0123456789')] += 1
    held = sum(len(answer) > 2 for call in history.of('enqueue') if call.result == 'ok' for answer in call.answers)
    return (f'lanes and keys: jobs in lanes for one {lanes["l"]}, for three {lanes["wide"]}, in order {lanes["row"]}, held by '
            f'retries {lanes["tail"]}, with a rate {lanes["trickle"]}; {held} found their unique key taken\n')


def verdict(options, soak, violations):
    for violation in violations[:SHOWN_MAX]:
        say(options, f'invariant {violation.invariant}: {violation.text}')
    if len(violations) > SHOWN_MAX:
        say(options, f'and {len(violations) - SHOWN_MAX} more violations')
    for problem in soak.problems:
        say(options, 'problem: ' + problem)
    kinds = collections.Counter(violation.kind for violation in violations)
    others = len(violations) - kinds[LOST] - kinds[DOUBLE] + len(soak.problems)
    return f'{kinds[LOST]} lost, {kinds[DOUBLE]} double' + (f', {others} other violations' if others else '')
