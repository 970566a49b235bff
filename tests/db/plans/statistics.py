"""No statement of Pawl reads a whole table because of what the planner believes of its size.

A queue is empty one moment and holds a million jobs the next. A vacuum in between tells the planner that the table has no
rows, and then an index that is read whole looks as cheap as one row by its key. Here every table is said to be empty, for
good, while tests of the engine run; auto_explain logs each plan, also of statements inside functions; and each scan of an
index must have a condition.
"""

import contextlib
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT, BUILD = sys.argv[1:]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, 'tests', 'style'))
sys.path.insert(0, os.path.join(ROOT, 'tools'))

import throwaway  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position,import-error

# What they do comes to all statements that a worker or a server sends for jobs.
TESTS = ('machines', 'machines_join', 'machines_signal', 'children', 'lanes', 'lanes_order', 'lanes_together', 'store',
         'store_settle', 'store_settle_done', 'store_lease', 'engine_sweep', 'library_cancel', 'isolation_held')
# Tables that hold a row for each job, claim, signal or lane. Others are small, and some are meant to be read whole.
LARGE = {'job', 'job_option', 'machine', 'claim', 'signal', 'child', 'lane', 'guard', 'history'}
MEANT = {'pawl.lanes_maintain'}  # looks at all lanes, now and then
EMPTY = """set allow_system_table_mods = on;
           update pg_class set relpages = 1, reltuples = 0 where relnamespace = 'pawl'::regnamespace and relkind in ('r', 'i')"""
EXPLAIN = {'session_preload_libraries': 'auto_explain', 'auto_explain.log_min_duration': '0',
           'auto_explain.log_nested_statements': 'on'}
SESSION = 'set enable_seqscan = off; set enable_mergejoin = off; set plan_cache_mode = force_generic_plan;'
PLANTED = SESSION + ('/* pawl.planted */ select from unnest(array(select generate_series(1, 9)::bigint)) as i(id) '
                     'join pawl.job as j on j.id = i.id')

RE_ENTRY = re.compile(r'^\d{4}-\d\d-\d\d \S+ UTC \[')
RE_SCAN = re.compile(r'Index (?:Only )?Scan using (\w+) on (\w+)')
RE_SEQUENTIAL = re.compile(r'Seq Scan on ((\w+)).*cost=10000000000')  # that cost: though it is switched off
RE_FUNCTION = re.compile(r'PL/pgSQL function (pawl\.\w+)\([^)]*\) line (\d+)')
RE_STATEMENT = re.compile(r'/\* (pawl\.\w+) \*/')


def entries(path):
    entry = []
    with open(path, encoding='utf-8', errors='replace') as f:
        for line in f:
            if RE_ENTRY.match(line) and ' CONTEXT:  ' not in line:
                yield entry
                entry = []
            entry.append(line)
    yield entry


def whole_scans(path):
    """What read a whole index: the statement or function, the index."""
    found, n = set(), 0
    for entry in entries(path):
        if not entry or ' plan:' not in entry[0]:
            continue
        text = ''.join(entry)
        function, statement = RE_FUNCTION.search(text), RE_STATEMENT.search(text)
        if not function and not statement:
            continue  # a test's own
        n += 1
        for line, after in zip(entry, entry[1:] + ['']):
            scan = RE_SCAN.search(line) or RE_SEQUENTIAL.search(line)
            if scan and scan.group(2) in LARGE and 'Index Cond' not in after:
                where = f'{function.group(1)}, line {function.group(2)}' if function else statement.group(1)
                if where.split(',')[0] in MEANT:
                    continue
                found.add(f'{where}: all of {scan.group(1)}')
    return sorted(found), n


@contextlib.contextmanager
def cluster_that_explains():
    # A socket's path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix='pawl-', dir='/tmp') as directory:
        os.chmod(directory, 0o755)
        cluster = throwaway.Cluster(directory)
        cluster.more_settings.update(EXPLAIN)
        try:
            cluster.start()
            cluster.make_template(os.environ['PAWL_TEST_BIN'], EMPTY)
            yield cluster
        finally:
            cluster.stop()


def run(cluster, name):
    programs = glob.glob(f'{BUILD}/tests/db/**/db_{name}_test', recursive=True)
    if len(programs) != 1:
        return [f'there are {len(programs)} programs for {name}']
    env = {**os.environ, 'PAWL_TEST_DB': cluster.conninfo('postgres')}
    done = subprocess.run(programs, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', check=False, env=env)
    return [] if done.returncode == 0 else [line for line in done.stdout.splitlines() if 'not ok' in line or 'rror' in line][:5]


def main():
    tap = Tap()
    bindir = throwaway.postgresql_bindir()
    libdir = subprocess.run([bindir + '/pg_config', '--pkglibdir'], stdout=subprocess.PIPE, text=True, check=False).stdout.strip() \
        if os.access(bindir + '/pg_config', os.X_OK) else os.path.join(os.path.dirname(bindir), 'lib')
    if not os.path.exists(os.path.join(libdir, 'auto_explain.so')):
        tap.skip('no statement reads a whole table', f'{bindir} has no auto_explain')
        tap.end()
    with cluster_that_explains() as cluster:
        for name in TESTS:
            tap.result(f'{name} passes while every table is said to be empty', run(cluster, name))
        found, n = whole_scans(cluster.log)
        tap.result('plans were logged', [] if n > 1000 else [f'only {n} plans of Pawl are in the log'])
        tap.result('no statement reads a whole table', found)
        cluster.psql('postgres', f'create database planted template {throwaway.TEMPLATE}')
        cluster.psql('planted', PLANTED)
        found, n = whole_scans(cluster.log)
        tap.result('a statement that does is seen', [] if found == ['pawl.planted: all of job_pkey'] else found or ['it is not'])
    tap.end()


main()
