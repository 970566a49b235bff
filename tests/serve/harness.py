"""harness: an echo_server to talk to, results in TAP, and HTTP/2 by hand for what no decent client would send."""

import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

BUILD = os.path.abspath(sys.argv[1])  # the build directory of tests/serve
sys.path.insert(0, BUILD)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'support'))

from patience import TIMEOUT_S, patiently, until  # noqa: E402, F401


class Server:
    """One echo_server. Its end comes with the end of its standard input, whatever happens to the test."""

    def __init__(self, *args, listen=('127.0.0.1:0',), limits=None, env=None, preexec=None, log=subprocess.DEVNULL):
        command = [os.path.join(BUILD, 'echo_server'), *args]
        for address in listen:
            command += ['--listen', address]
        for name, value in (limits or {}).items():
            command += ['--limit', f'{name}={value}']
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=env, preexec_fn=preexec, stderr=None if log is None else log)
        self.addresses = []
        while True:
            line = self.process.stdout.readline().strip()
            if line == 'ready':
                break
            if not line.startswith('listening '):
                raise RuntimeError(f'the server did not start: {line!r}')
            self.addresses.append(line.split(' ', 1)[1])
        self.address = self.addresses[0]
        self.port = int(self.address.rsplit(':', 1)[1]) if ':' in self.address and 'unix' not in self.address else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        status = self.close()
        assert status == 0, f'the server ended with {status}'

    def close(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            status = self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        return status

    def command(self, text):
        self.process.stdin.write(text + '\n')
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def get(self, path):
        with urllib.request.urlopen(f'http://{self.address}{path}', timeout=TIMEOUT_S) as answer:
            return answer.read().decode()

    def state(self):
        return json.loads(self.get('/state'))

    def metric(self, name):
        for line in self.get('/metrics').splitlines():
            if line.startswith(name + ' '):
                return float(line.split()[-1])
        if '{' in name:
            return 0  # labels that nothing was counted for
        raise KeyError(name)

    def rss_kb(self):
        with open(f'/proc/{self.process.pid}/status', encoding='ascii') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))

    def connect(self):
        s = socket.create_connection(('127.0.0.1', self.port), timeout=TIMEOUT_S)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s


# --- HTTP/2 by hand

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
ENHANCE_YOUR_CALM = 11


def frame(kind, flags=0, stream=0, body=b''):
    return struct.pack('>I', len(body))[1:] + bytes((kind, flags)) + struct.pack('>I', stream) + body


def literal(name, value):
    """A header that no table remembers."""
    def text(t):
        t = t.encode() if isinstance(t, str) else t
        assert len(t) < 127 + 128 * 127
        return (bytes((len(t),)) if len(t) < 127 else bytes((127, (len(t) - 127) % 128 | 128, (len(t) - 127) // 128))) + t
    return b'\x00' + text(name) + text(value)


def call_headers(path='/pawl.test.v1.Echo/Unary', extra=(), method='POST', content_type='application/grpc'):
    fields = [(':method', method), (':scheme', 'http'), (':path', path), (':authority', 'x'), ('te', 'trailers')]
    if content_type:
        fields.append(('content-type', content_type))
    return b''.join(literal(n, v) for n, v in fields + list(extra))


def message(body, flag=0):
    return bytes((flag,)) + struct.pack('>I', len(body)) + body


class _Field(ctypes.Structure):
    _fields_ = [('name', ctypes.POINTER(ctypes.c_ubyte)), ('value', ctypes.POINTER(ctypes.c_ubyte)),
                ('name_len', ctypes.c_size_t), ('value_len', ctypes.c_size_t), ('flags', ctypes.c_ubyte)]


class Inflater:
    """Header blocks of one connection, decoded by nghttp2."""

    def __init__(self):
        self.lib = ctypes.CDLL('libnghttp2.so.14')
        self.lib.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self.lib.nghttp2_hd_inflate_hd2.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Field),
                                                    ctypes.POINTER(ctypes.c_int), ctypes.c_char_p, ctypes.c_size_t,
                                                    ctypes.c_int]
        self.state = ctypes.c_void_p()
        assert self.lib.nghttp2_hd_inflate_new(ctypes.byref(self.state)) == 0

    def free(self):
        self.lib.nghttp2_hd_inflate_del(self.state)

    def decode(self, block):
        fields = {}
        emitted, final = 2, 1
        while True:
            field, flags = _Field(), ctypes.c_int(0)
            used = self.lib.nghttp2_hd_inflate_hd2(self.state, ctypes.byref(field), ctypes.byref(flags), block,
                                                   len(block), 1)
            assert used >= 0, f'a header block that cannot be decoded: {used}'
            block = block[used:]
            if flags.value & emitted:
                name = bytes(field.name[:field.name_len]).decode()
                fields[name] = bytes(field.value[:field.value_len]).decode()
            if flags.value & final:
                self.lib.nghttp2_hd_inflate_end_headers(self.state)
                return fields
            assert used or flags.value & emitted


class Raw:
    """A connection that says whatever it is told to. The headers that came last are in `fields`."""

    def __init__(self, server, preface=True, settings=b''):
        self.socket = server.connect()
        self.buffer = b''
        self.inflater = Inflater()
        self.fields = {}
        if preface:
            self.send(PREFACE + frame(SETTINGS, 0, 0, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()
        self.inflater.free()

    def send(self, data):
        self.socket.sendall(data)

    def try_send(self, data):
        """False when the other side has had enough."""
        try:
            self.socket.sendall(data)
            return True
        except (ConnectionError, socket.timeout):
            return False

    def read(self):
        """The next frame: (kind, flags, stream, body); None at the end of the connection."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], 'big'):
            try:
                more = self.socket.recv(65536)
            except ConnectionError:
                return None
            if not more:
                return None
            self.buffer += more
        length = int.from_bytes(self.buffer[:3], 'big')
        kind, flags = self.buffer[3], self.buffer[4]
        stream = int.from_bytes(self.buffer[5:9], 'big') & 0x7fffffff
        body, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
        if kind == HEADERS:
            self.fields = self.inflater.decode(body)
        return kind, flags, stream, body

    def read_until(self, kind):
        """The next frame of a kind; None when the connection ends before."""
        while True:
            got = self.read()
            if got is None or got[0] == kind:
                return got

    def goaway_code(self):
        got = self.read_until(GOAWAY)
        return int.from_bytes(got[3][4:8], 'big') if got else None

    def ended(self):
        while self.read() is not None:
            pass
        return True

    def status(self, stream):
        """The grpc-status that ends a stream."""
        while True:
            got = self.read()
            assert got is not None, 'the connection ended'
            if got[2] == stream and got[0] == HEADERS and got[1] & END_STREAM:
                return self.fields['grpc-status']


# --- running

def run(namespace):
    """Runs every function called test_..., in order; its doc string is the name."""
    tests = [f for name, f in namespace.items() if name.startswith('test_')]
    only = sys.argv[2:]
    if only:
        tests = [f for f in tests if f.__name__ in only]
    print(f'1..{len(tests)}')
    failed = 0
    for number, test in enumerate(tests, 1):
        start = time.monotonic()
        try:
            reason = test()
            print(f'ok {number} - {test.__doc__}' + (f' # SKIP {reason}' if reason else ''))
        except Exception:  # a failed test must not keep the others from running
            failed += 1
            print(f'not ok {number} - {test.__doc__}')
            for line in traceback.format_exc().splitlines():
                print('# ' + line)
        print(f'# {time.monotonic() - start:.2f} s', flush=True)
    sys.exit(1 if failed else 0)


def skip_all(reason):
    print(f'1..0 # SKIP {reason}')
    sys.exit(0)


class Scratch:
    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='serve-', dir=os.environ.get('PAWL_TEST_TMP'))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
