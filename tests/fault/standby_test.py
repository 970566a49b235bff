"""A real standby: the error for a target that names it alone, and that the primary is found beside it."""

import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from pair import Pair, make_base  # noqa: E402
from stage import DATABASE, throwaway  # noqa: E402

PAWL = sys.argv[1] + '/src/cli/pawl'


def pawl(conninfo, *args):
    return throwaway.run_quietly(['timeout', '60', PAWL, *args, '--db', conninfo])


def check(done, status, *words):
    assert (done.returncode == 0) == (status == 0), done.stdout
    for word in words:
        assert word in done.stdout, f'"{word}" is not in: {done.stdout}'
    assert 'Is PostgreSQL running' not in done.stdout, done.stdout


def wants_a_primary(pair):
    """a standby that is asked for as a primary gets its own words"""
    done = pawl(pair.standby.conninfo(DATABASE) + ' target_session_attrs=read-write', 'enqueue', 'k')
    check(done, 1, 'is a standby (read-only)', 'host=a,b')


def alone_to_write(pair):
    """a standby alone takes no jobs, and the hint says where to go"""
    check(pawl(pair.standby.conninfo(DATABASE), 'enqueue', 'k'), 1, 'standby', 'primary')
    check(pawl(pair.standby.conninfo(DATABASE), 'work', '--exec', 'k=true', '--once'), 1, 'standby', 'primary')


def alone_to_read(pair):
    """reading from a standby alone goes on working"""
    check(pawl(pair.standby.conninfo(DATABASE), 'queue', 'list'), 0)


def beside_the_primary(pair):
    """with several hosts the primary is found, whichever comes first"""
    hosts = f'host={pair.standby.sockets},{pair.primary.sockets} user={throwaway.USER} dbname={DATABASE}'
    check(pawl(hosts, 'enqueue', 'k'), 0)
    check(pawl(hosts, 'work', '--exec', 'k=true', '--once'), 0, 'done')


def both_named(pair):
    """an error with several hosts says why each was not taken"""
    hosts = f'host=/nonexistent,{pair.standby.sockets} user={throwaway.USER} dbname={DATABASE}'
    check(pawl(hosts, 'enqueue', 'k'), 1, '/nonexistent/.s.PGSQL.5432: No such file or directory',
          f'{pair.standby.sockets}/.s.PGSQL.5432: ', 'is a standby (read-only)')


def main():
    directory = tempfile.mkdtemp(prefix='sb-', dir=os.environ.get('PAWL_TEST_TMP', '/tmp'))
    os.chmod(directory, 0o755)
    pair, failed = None, 0
    cases = [wants_a_primary, alone_to_write, alone_to_read, beside_the_primary, both_named]
    try:
        pair = Pair(directory + '/pair', make_base(directory + '/base', PAWL), False)
        pair.start()
        for n, case in enumerate(cases, 1):
            try:
                case(pair)
                print(f'ok {n} - {case.__doc__}', flush=True)
            except AssertionError as error:
                failed += 1
                print(f'not ok {n} - {case.__doc__}\n' + '\n'.join('# ' + line for line in str(error).splitlines()), flush=True)
        print(f'1..{len(cases)}')
    finally:
        if pair:
            pair.end()
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
