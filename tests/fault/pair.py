"""pair: a primary and its standby, each a PostgreSQL of its own, with streaming replication between them; and what can happen to
them: killed, paused, promoted."""

import os
import shutil
import signal
import time

from stage import DATABASE, Cluster, Failure, throwaway

WAIT_S = 60


class Node(Cluster):
    """One of the two. Its data is a copy of a cluster that was stopped in good order."""

    def __init__(self, directory, base, settings):
        os.mkdir(directory, 0o755)
        super().__init__(directory)
        self.more_settings.update(settings)
        os.mkdir(self.sockets, 0o755)
        os.chown(self.sockets, self.owner.pw_uid, self.owner.pw_gid)
        throwaway.run_quietly(['cp', '-a', base.data, self.data])

    def follow(self, primary):
        """To be called before it is launched."""
        self.write('standby.signal', '')
        os.chown(self.data + '/standby.signal', self.owner.pw_uid, self.owner.pw_gid)
        self.more_settings['primary_conninfo'] = f'host={primary.sockets} user={throwaway.USER} application_name=standby'

    def pids(self):
        """The postmaster first: who is stopped forks nobody."""
        found = [self.server.pid]
        for name in os.listdir('/proc'):
            try:
                with open(f'/proc/{name}/stat', encoding='utf-8', errors='replace') as f:
                    parent = int(f.read().rpartition(')')[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == self.server.pid:
                found.append(int(name))
        return found

    def signal_all(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def pause(self):
        os.kill(self.server.pid, signal.SIGSTOP)
        self.signal_all(signal.SIGSTOP)

    def resume(self):
        self.signal_all(signal.SIGCONT)

    def kill(self):
        """kill -9 of all its processes: as if the machine had gone."""
        if self.server is None or self.server.poll() is not None:
            return
        self.pause()
        self.signal_all(signal.SIGKILL)
        self.server.wait(throwaway.STOP_TIMEOUT_S)
        self.died = True

    def receiver(self):
        """The process that takes in what the primary writes."""
        rows = self.ask('select pid from pg_stat_wal_receiver')
        return int(rows[0]) if rows else None

    def promote(self):
        """Returns when it takes writes."""
        rows = self.ask(f'select pg_promote(true, {WAIT_S})')
        if rows != ['t']:
            raise Failure('the standby could not be promoted:\n' + self.tail())


class Pair:
    def __init__(self, directory, base, synchronous):
        os.mkdir(directory, 0o755)
        settings = {'max_wal_senders': '4', 'wal_keep_size': '512MB', 'hot_standby': 'on', 'wal_receiver_status_interval': '1s',
                    'wal_retrieve_retry_interval': '200ms'}
        self.primary = Node(directory + '/a', base, settings)
        self.standby = Node(directory + '/b', base, settings)
        if synchronous:
            self.primary.more_settings['synchronous_standby_names'] = '*'
        self.standby.follow(self.primary)
        self.state = 'sync' if synchronous else 'async'
        self.directory = directory

    def conninfo(self):
        return f'host={self.primary.sockets},{self.standby.sockets} user={throwaway.USER} dbname={DATABASE}'

    def start(self):
        self.primary.launch()
        self.standby.launch()
        until = time.monotonic() + WAIT_S
        while self.primary.ask('select sync_state from pg_stat_replication') != [self.state]:
            if time.monotonic() > until:
                raise Failure('the standby does not follow:\n' + self.standby.tail())
            time.sleep(0.05)

    def end(self):
        for node in (self.primary, self.standby):
            node.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def make_base(directory, pawl):
    """A cluster with the schema, stopped, to be copied."""
    os.mkdir(directory, 0o755)
    base = Cluster(directory)
    base.start()
    base.prepare(pawl)
    with open(base.data + '/pg_hba.conf', 'a', encoding='utf-8') as f:
        f.write(f'local replication {throwaway.USER} peer map=tests\n')
    base.stop()
    return base
