"""faults: what goes wrong in a soak run. Each fault returns whether it could be done; what must be undone later is in `later`."""

import collections
import os
import signal
import time

from cast import MOMENTS, Cast
from stage import DATABASE

MOMENT_SIGNAL = signal.SIGRTMIN + 2  # and the number of the moment
ARMED_S = 3  # for its moment to come


class Faults(Cast):
    def __init__(self, options, cluster, directory, plant=None):
        super().__init__(options, cluster, directory, plant)
        self.injected = collections.Counter()
        self.later = []  # (when, what to do): the ends of faults

    def pick(self, actors):
        able = [actor for actor in actors if actor.alive() and not actor.frozen and actor.stopping_since is None]
        return self.dice.choice(able) if able else None

    def after(self, low_s, high_s, what):
        self.later.append((time.monotonic() + self.dice.uniform(low_s, high_s), what))

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
            self.after(lease_s + 0.2, 2 * lease_s + 0.5, lambda: actor.freeze(False))
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

    def kill_serve(self):
        """At the next moment of one kind after the other, then at once."""
        server = self.pick(self.servers)
        moment = self.injected['kill_serve'] % (len(MOMENTS) + 1)
        if server and moment < len(MOMENTS):
            life = server.lives
            server.signal(MOMENT_SIGNAL + moment)
            self.after(ARMED_S, ARMED_S, lambda: server.lives == life and server.kill())
        elif server:
            server.kill()
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
        self.after(1, 2, self.hear)
        return self.cluster.ask('delete from pawl.sleeper') is not None

    def hear(self):
        for proxy in self.proxies:
            proxy.losing = False

    def refuse_commits(self):
        self.after(0.5, 1.5, lambda: self.cluster.ask('update soak.knob set refuse_commits = 0'))
        return self.cluster.ask('update soak.knob set refuse_commits = 0.3') is not None

    def kill_pooler(self):
        if self.pooler:
            self.pooler.kill()
            self.pooler.start()
        return self.pooler

    # --- the networks

    def cut_some(self, relays, share):
        for relay in relays:
            relay.cut_share = share
        self.after(0.5, 2, lambda: self.mend(relays))
        return relays

    @staticmethod
    def mend(relays):
        for relay in relays:
            relay.cut_share = 0.0

    def cut(self):
        return self.cut_some(self.proxies, 0.2)

    def hold(self):
        proxy = self.dice.choice(self.proxies)
        proxy.hold(True)
        self.after(0.5, 2 * self.lease_ms / 1000, lambda: proxy.hold(False))
        return True

    def cut_link(self):
        return self.cut_some(self.balancers, 0.05)

    def hold_link(self):
        """Half open in the end, one time of two: who waits for the other learns only then that it is gone."""
        if not self.balancers:
            return False
        balancer = self.dice.choice(self.balancers)
        drop = self.dice.random() < 0.5

        def let_go():
            if drop:
                balancer.drop()
            balancer.hold(False)
        balancer.hold(True)
        self.after(0.5, 2 * self.lease_ms / 1000, let_go)
        return True

    def dribble(self):
        if not self.balancers:
            return False
        balancer = self.dice.choice(self.balancers)
        balancer.dribbling = True
        self.after(0.5, 2, lambda: setattr(balancer, 'dribbling', False))
        return True

    # Name: how often, compared with the others.
    FAULTS = {'kill_worker': 3, 'freeze': 3, 'stop_worker': 2, 'kill_producer': 1, 'crash_server': 1, 'kill_backend': 1,
              'terminate_backends': 2, 'cut': 3, 'hold': 1, 'lose_notifications': 1, 'refuse_commits': 1, 'kill_pooler': 1}
    # Those of servers and who has only them.
    LINKS = {'kill_serve': 4, 'stop_serve': 2, 'freeze_serve': 1, 'kill_remote': 2, 'freeze_remote': 2, 'stop_remote': 1,
             'cut_link': 2, 'hold_link': 2, 'dribble': 1}
    WEIGHTS = {**FAULTS, **LINKS}
