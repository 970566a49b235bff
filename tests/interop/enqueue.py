"""The SQL functions from Python (psycopg2): enqueue in a transaction with business data, many, unique keys, errors, waiting."""

import os
import select
import sys
import time
import uuid

import psycopg2
import psycopg2.errors
import psycopg2.extras

FAILED = 0
N = 0


def check(name, ok):
    global N, FAILED
    N += 1
    FAILED += not ok
    print(f"{'ok' if ok else 'not ok'} {N} - {name}", flush=True)


def sqlstate_of(conn, sql, args=()):
    try:
        with conn.cursor() as cur:
            cur.execute(sql, args)
        return None
    except psycopg2.Error as e:
        return e.pgcode
    finally:
        conn.rollback()


def one(conn, sql, args=()):
    with conn.cursor() as cur:
        cur.execute(sql, args)
        return cur.fetchone()[0]


def tests(conninfo):
    conn = psycopg2.connect(conninfo)
    one(conn, 'CREATE TABLE orders (id int PRIMARY KEY); SELECT 1')
    conn.commit()

    with conn, conn.cursor() as cur:
        cur.execute('INSERT INTO orders VALUES (17)')
        cur.execute("SELECT pawl.enqueue('invoice', %s, queue => 'mail', tags => %s)",
                    (psycopg2.extras.Json({'order': 17, 'name': 'Zoë'}), ['a', 'b']))
        job = cur.fetchone()[0]
    check('a job and the data it is about are committed together',
          one(conn, "SELECT convert_from(payload, 'UTF8')::jsonb ->> 'name' FROM pawl.job WHERE id = %s", (job,)) == 'Zoë')
    try:
        with conn, conn.cursor() as cur:
            cur.execute("SELECT pawl.enqueue('invoice')")
            cur.execute('INSERT INTO orders VALUES (17)')
    except psycopg2.errors.UniqueViolation:
        pass
    check('and rolled back together', one(conn, 'SELECT count(*) FROM pawl.job') == 1)

    with conn.cursor() as cur:
        cur.execute("SELECT pawl.enqueue_many('resize', %s::jsonb[])", ([psycopg2.extras.Json({'n': n}) for n in range(100)],))
        ids = [row[0] for row in cur]
    conn.commit()
    check('many come in order', ids == sorted(ids) and len(set(ids)) == 100)
    raw = bytes(range(256))
    job = one(conn, "SELECT pawl.enqueue('k', bytes => %s)", (psycopg2.Binary(raw),))
    check('any bytes are kept', bytes(one(conn, 'SELECT payload FROM pawl.job WHERE id = %s', (job,))) == raw)
    conn.commit()

    first = one(conn, "SELECT pawl.enqueue('k', unique_key => 'x')")
    conn.commit()
    check('the second learns the first one\'s id', one(conn, "SELECT pawl.enqueue('k', unique_key => 'x')") == first)
    conn.commit()
    check('PW004: the key is taken',
          sqlstate_of(conn, "SELECT pawl.enqueue('k', unique_key => 'x', on_conflict => 'refuse')") == 'PW004')
    check('PW001: no such job', sqlstate_of(conn, 'SELECT pawl.cancel(-1)') == 'PW001')
    check('PW003: a stale claim',
          sqlstate_of(conn, 'SELECT pawl.assert_claim(%s, %s)', (first, str(uuid.uuid4()))) == 'PW003')
    check('22023: a bad name', sqlstate_of(conn, "SELECT pawl.enqueue('no blanks')") == '22023')

    listener = psycopg2.connect(conninfo)
    listener.autocommit = True
    with listener.cursor() as cur:
        cur.execute('LISTEN pawl_done')
        cur.execute('SELECT pawl.watch(%s)', (first,))
    check('a job is cancelled', one(conn, "SELECT pawl.cancel(%s, 'me')", (first,)) == 'cancelled')
    conn.commit()
    check('PW002: it is finished', sqlstate_of(conn, 'SELECT pawl.cancel(%s)', (first,)) == 'PW002')
    select.select([listener], [], [], 60)
    listener.poll()
    check('whoever listens hears of its end', [n.payload for n in listener.notifies] == [str(first)])
    listener.close()
    conn.close()


def clone(admin, name):
    for tries in range(1200):
        try:
            with admin.cursor() as cur:
                cur.execute(f'CREATE DATABASE {name} TEMPLATE pawl_template')
            return
        except psycopg2.errors.ObjectInUse:  # somebody else is cloning it at this very moment
            if tries == 1199:
                raise
            time.sleep(0.025)


def main():
    name = 'interop_py_' + uuid.uuid4().hex
    admin = psycopg2.connect(os.environ['PAWL_TEST_DB'])
    admin.autocommit = True
    clone(admin, name)
    try:
        tests(psycopg2.extensions.make_dsn(os.environ['PAWL_TEST_DB'], dbname=name))
    finally:
        with admin.cursor() as cur:
            cur.execute(f'DROP DATABASE {name} WITH (FORCE)')
        admin.close()
    print(f'1..{N}')
    return FAILED > 0


sys.exit(main())
