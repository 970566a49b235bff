"""cast: who plays in a soak run, and on which routes they reach each other: workers and producers with a database, servers, and workers
and producers that have only those."""

import os
import random

from balancer import Balancer
from plant import PLANTS, apply, files, functions
from proxy import Proxy
from stage import DATABASE, Actor, Pooler, throwaway

QUEUES = 'alpha,beta'
PRODUCERS = 2
CALLERS = 2
THREADS = 4
SLOW_LEASES = 1.5  # that a slow job takes at most
MOMENTS = ('claimed', 'sent', 'settling', 'settled')  # as in moments.h
NOT_TAKEN = 75  # a worker's exit status: no server was there


class Cast:
    def __init__(self, options, cluster, directory, plant=None):
        self.options = options
        self.cluster = cluster
        self.directory = directory
        self.plant = plant
        self.dice = random.Random(options.seed)
        self.lease_ms = options.lease_ms
        self.pooler = None
        os.mkdir(directory + '/p')
        self.proxies = []
        for i in range(2):
            os.mkdir(f'{directory}/p/{i}')
            self.proxies.append(Proxy(f'{directory}/p/{i}', cluster.sockets, self.dice.random()))
        self.workers = [self.worker(i) for i in range(options.workers)]
        self.producers = [self.producer(i) for i in range(PRODUCERS)]
        self.servers, self.balancers, self.remotes, self.callers = [], [], [], []
        if options.servers:
            self.servers = [self.server(i) for i in range(options.servers)]
            self.balancers = [Balancer(f'{directory}/p/b{i}', self.addresses, self.dice.random()) for i in range(2)]
            self.remotes = [self.remote(i) for i in range(options.remotes)]
            self.callers = [self.caller(i) for i in range(CALLERS)]

    def everybody(self):
        return self.servers + self.workers + self.remotes + self.producers + self.callers

    def relays(self):
        return self.proxies + self.balancers

    def program(self, name):
        """With the planted bug, if it is in this one."""
        planted = self.plant and files(self.plant) and PLANTS[self.plant].program == name
        return f'{self.options.build}/tests/fault/{name}' + ('_' + self.plant if planted else '')

    def conninfo(self, directory):
        return f'host={directory} user={throwaway.USER} dbname={DATABASE}'

    def worker(self, i):
        """Every fourth behind the pooler, every second one of the rest behind a bad network."""
        route, pooled = self.cluster.sockets, []
        if i % 4 == 3 and Pooler.program():
            route, pooled = self.directory + '/b', ['pooled']
        elif i % 2 == 1:
            route = f'{self.directory}/p/{i // 2 % 2}'
        return Actor(f'worker{i}', self.directory, lambda events, life: [
            self.program('soak_worker'), events, self.conninfo(route), str(self.lease_ms), str(THREADS), QUEUES] + pooled)

    def producer(self, i):
        route = self.cluster.sockets if i == 0 else self.directory + '/p/0'
        return self.source('producer', i, lambda: self.conninfo(route))

    def source(self, name, i, where):
        """Of jobs."""
        seed = self.dice.randrange(1 << 31)
        slow = PLANTS[self.plant].slow if self.plant else SLOW_LEASES
        return Actor(f'{name}{i}', self.directory, lambda events, life: [
            self.program('soak_' + name), events, where(), f'{name[0]}{i}.{life}', str(seed + life),
            str(self.options.every_ms), str(int(slow * self.lease_ms)), QUEUES])

    def address(self, i):
        return f'{self.directory}/p/s{i}'

    def addresses(self):
        return [self.address(i) for i in range(len(self.servers))]

    def server(self, i):
        """One of two behind a bad network."""
        route = self.cluster.sockets if i % 2 == 0 else f'{self.directory}/p/1'
        return Actor(f'server{i}', self.directory, lambda events, life: [
            self.program('soak_server'), events, self.conninfo(route), str(self.lease_ms), 'unix:' + self.address(i)])

    def remote(self, i):
        return Actor(f'remote{i}', self.directory, lambda events, life: [
            self.program('soak_remote'), events, f'unix:{self.balancers[i % 2].path}', str(self.lease_ms), str(THREADS),
            QUEUES])

    def caller(self, i):
        return self.source('caller', i, lambda: f'unix:{self.balancers[i % 2].path}')

    def start(self):
        self.cluster.prepare(self.options.build + '/src/cli/pawl')
        for name in functions(self.plant) if self.plant else []:
            text = self.cluster.psql(DATABASE, f"select pg_get_functiondef('{name}'::regproc)").stdout
            self.cluster.psql(DATABASE, apply(self.plant, name, text))
        if self.plant and PLANTS[self.plant].setup:
            self.cluster.psql(DATABASE, PLANTS[self.plant].setup)
        if Pooler.program():
            self.pooler = Pooler(self.cluster, self.directory + '/b')
            self.pooler.start()
            self.pooler.wait()
        for relay in self.relays():
            relay.start()
        for actor in self.everybody():
            actor.start()

    def end(self):
        """Now, whatever they do."""
        for actor in self.everybody():
            actor.kill()
        for relay in self.relays():
            if relay.thread.is_alive():
                relay.stop()
        if self.pooler:
            self.pooler.kill()
