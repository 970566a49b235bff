"""faults: what goes wrong in a soak run. Each fault returns whether it could be done. What happens later is in `later`: the end of a
fault is repeated until it is verified, because a fault that goes on would be taken for lost jobs."""

import collections
import os
import signal
import time

from cast import MOMENTS, Cast
from stage import DATABASE, Failure

MOMENT_SIGNAL = signal.SIGRTMIN + 2  # and the number of the moment
ARMED_S = 3  # for its moment to come
END_S = 60   # for the end of a fault: PostgreSQL may be in recovery
END_AGAIN_S = 0.1

# fault: its name, when `what` must return something true, or is repeated; None: `what` is done once. since: of the first try
Later = collections.namedtuple('Later', 'at what fault since')


class Faults(Cast):
    def __init__(self, options, cluster, directory, plant=None):
        super().__init__(options, cluster, directory, plant)
        self.injected = collections.Counter()
        self.later = []
        self.armed = {}  # moment: the server that is to die at it
        self.deaths = collections.Counter()  # of servers, by moment, as they wrote it down

    def pick(self, actors):
        able = [actor for actor in actors if actor.alive() and not actor.frozen and actor.stopping_since is None]
        return self.dice.choice(able) if able else None

    def after(self, low_s, high_s, what):
        self.later.append(Later(time.monotonic() + self.dice.uniform(low_s, high_s), what, None, None))

    def ends(self, fault, low_s, high_s, what):
        """`what` ends the fault and returns whether it is over."""
        self.later.append(Later(time.monotonic() + self.dice.uniform(low_s, high_s), what, fault, None))

    def do_later(self, now, everything=False):
        """What is due, or everything. An end that did not work is tried again, for END_S."""
        due = [entry for entry in self.later if everything or entry.at <= now]
        self.later = [entry for entry in self.later if not everything and entry.at > now]
        for entry in due:
            if entry.what() or entry.fault is None:
                continue
            since = entry.since or now
            if now - since > END_S:
                raise Failure(f'the soak could not end the fault {entry.fault} within {END_S} s, so this run shows nothing')
            self.later.append(entry._replace(at=now + END_AGAIN_S, since=since))

    def end_all(self):
        """No fault goes on when this returns."""
        while self.later:
            self.do_later(time.monotonic(), everything=True)
            if self.later:
                time.sleep(END_AGAIN_S)
        for relay in self.relays():
            if not relay.thread.is_alive():
                raise Failure(f'the relay at {relay.path} died')

    # --- processes

    def kill(self, actors):
        actor = self.pick(actors)
        if actor:
            actor.kill()
            self.after(0.1, 0.6, lambda: actor.alive() or actor.start())
        return actor

    def freeze_one(self, actors):
        """Until its lease is over: it reports late."""
        actor = self.pick(actors)
        if actor:
            actor.freeze(True)
            lease_s = self.lease_ms / 1000
            self.ends('freeze', lease_s + 0.2, 2 * lease_s + 0.5, actor.thaw)
        return actor

    def stop_one(self, actors, twice):
        actor = self.pick(actors)
        if actor:
            actor.stop()
            if self.dice.random() < twice:
                life = actor.lives
                self.after(0, 0.2, lambda: actor.lives == life and actor.hurry())
        return actor

    def kill_worker(self):
        return self.kill(self.workers)

    def freeze(self):
        return self.freeze_one(self.workers)

    def stop_worker(self):
        return self.stop_one(self.workers, 0.3)

    def kill_producer(self):
        producer = self.pick(self.producers + self.callers)
        if producer:
            producer.kill()
            producer.start()
        return producer

    def kill_remote(self):
        return self.kill(self.remotes)

    def freeze_remote(self):
        return self.freeze_one(self.remotes)

    def stop_remote(self):
        return self.stop_one(self.remotes, 0.3)

    def wants_moments(self):
        """Whether no server has died yet at one of them."""
        return 'kill_serve' in self.options.faults and any(not self.deaths[name] for name in MOMENTS)

    def kill_serve(self):
        """At a moment, every fifth time at once. The moment is the one at which the fewest servers died so far."""
        server = self.pick([server for server in self.servers if server.settles()] or self.servers)
        if server and (self.injected['kill_serve'] % (len(MOMENTS) + 1) < len(MOMENTS) or self.wants_moments()):
            life = server.lives
            waited_for = {moment for moment, other in self.armed.items() if other.alive()}
            moment = min((name for name in MOMENTS if name not in waited_for), default=MOMENTS[0],
                         key=lambda name: (self.deaths[name], MOMENTS.index(name)))
            self.armed[moment] = server
            server.signal(MOMENT_SIGNAL + MOMENTS.index(moment))
            self.after(ARMED_S, ARMED_S, lambda: server.lives == life and server.kill())
        elif server:
            server.kill()
        return server

    def abandon_serve(self):
        """Killed while its workers run jobs, and away for more than a lease: they go on under another server, and the claim expires."""
        server = self.pick(self.servers) if sum(server.alive() for server in self.servers) > 1 else None
        if server:
            server.kill()
            server.back_at = time.monotonic() + 1.5 * self.lease_ms / 1000
        return server

    def freeze_serve(self):
        return self.freeze_one(self.servers)

    def stop_serve(self):
        return self.stop_one(self.servers, 0.2)

    # --- the database

    def crash_server(self):
        self.cluster.crash()
        return True

    def kill_backend(self):
        """The server takes that for a crash and starts anew by itself."""
        pids = self.backends()
        if pids:
            try:
                os.kill(int(self.dice.choice(pids)), signal.SIGKILL)
            except ProcessLookupError:
                return False
        return pids

    def backends(self):
        return self.cluster.ask(f"select pid from pg_stat_activity where datname = '{DATABASE}' and "
                                "backend_type = 'client backend' and pid <> pg_backend_pid() order by 1")

    def terminate_backends(self):
        pids = self.backends()
        if not pids:
            return False
        some = self.dice.sample(pids, min(len(pids), self.dice.randint(1, 5)))
        return self.cluster.ask(f"select pg_terminate_backend(pid) from unnest(array[{','.join(some)}]) as pid")

    def lose_notifications(self):
        for proxy in self.proxies:
            proxy.losing = True
        self.ends('lose_notifications', 1, 2, self.hear)
        return self.cluster.ask('delete from pawl.sleeper') is not None

    def hear(self):
        for proxy in self.proxies:
            proxy.losing = False
        return True

    def refuse_commits(self):
        self.ends('refuse_commits', 0.5, 1.5, self.accept_commits)
        return self.cluster.ask('update soak.knob set refuse_commits = 0.3') is not None

    def accept_commits(self):
        """The answer to the update may be lost, so what it came to is read again."""
        return self.turn_off('refuse_commits')

    def slow_sweeps(self):
        """A sweep of all that is lost takes longer than it may. For a planted bug it stays so: only a sweep that
        takes fewer gets through."""
        if not self.plant:
            self.ends('slow_sweeps', 1, 2, self.fast_sweeps)
        return self.cluster.ask('update soak.knob set slow_sweeps = 0.05') is not None

    def fast_sweeps(self):
        return self.turn_off('slow_sweeps')

    def turn_off(self, knob):
        self.cluster.ask(f'update soak.knob set {knob} = 0')
        return self.cluster.ask(f'select count(*) from soak.knob where {knob} <> 0') == ['0']

    def age_claims(self):
        """As if thousands of claims had come and gone: those that live get a new place in the ledger with their next renewal."""
        return self.cluster.ask("select setval('pawl.claim_seq_seq', nextval('pawl.claim_seq_seq') + 2000)") is not None

    def kill_pooler(self):
        if self.pooler:
            self.pooler.kill()
            self.pooler.start()
            self.ends('kill_pooler', 0, 0, self.pooler.listens)
        return self.pooler

    # --- the networks

    def cut_some(self, relays, share):
        for relay in relays:
            relay.cut_share = share
        self.ends('cut', 0.5, 2, lambda: self.mend(relays))
        return relays

    @staticmethod
    def mend(relays):
        for relay in relays:
            relay.cut_share = 0.0
        return True

    def cut(self):
        return self.cut_some(self.proxies, 0.2)

    def hold(self):
        proxy = self.dice.choice(self.proxies)
        proxy.hold(True)
        self.ends('hold', 0.5, 2 * self.lease_ms / 1000, proxy.let_flow)
        return True

    def cut_link(self):
        return self.cut_some(self.balancers, 0.05)

    def hold_link(self):
        """Half open in the end, one time of two: who waits for the other learns only then that it is gone."""
        if not self.balancers:
            return False
        balancer = self.dice.choice(self.balancers)
        drop = [balancer.drop] if self.dice.random() < 0.5 else []

        def let_go():
            while drop:
                drop.pop()()  # once, however often the end is tried
            return balancer.let_flow()
        balancer.hold(True)
        self.ends('hold_link', 0.5, 2 * self.lease_ms / 1000, let_go)
        return True

    def dribble(self):
        if not self.balancers:
            return False
        balancer = self.dice.choice(self.balancers)
        balancer.dribbling = True
        self.ends('dribble', 0.5, 2, lambda: self.pour(balancer))
        return True

    @staticmethod
    def pour(balancer):
        balancer.dribbling = False
        return True

    # Name: how often, compared with the others.
    FAULTS = {'kill_worker': 3, 'freeze': 3, 'stop_worker': 2, 'kill_producer': 1, 'crash_server': 1, 'kill_backend': 1,
              'terminate_backends': 2, 'cut': 3, 'hold': 1, 'lose_notifications': 1, 'refuse_commits': 1, 'slow_sweeps': 1,
              'age_claims': 1, 'kill_pooler': 1}
    # Those of servers and who has only them.
    LINKS = {'kill_serve': 4, 'abandon_serve': 2, 'stop_serve': 2, 'freeze_serve': 1, 'kill_remote': 2, 'freeze_remote': 2, 'stop_remote': 1,
             'cut_link': 2, 'hold_link': 2, 'dribble': 1}
    WEIGHTS = {**FAULTS, **LINKS}
