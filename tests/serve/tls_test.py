"""TLS and mutual TLS with certificates made for the test: clients, ALPN, versions, reload, and those that do not fit."""

import os
import socket
import ssl
import subprocess
import sys

from authority import Authority
from harness import TIMEOUT_S, Scratch, Server, run, skip_all

try:
    import grpc
except ImportError:
    skip_all('python3-grpcio is not installed')

import echo_pb2


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def call(address, authority, pair=None, text='x'):
    credentials = grpc.ssl_channel_credentials(read(authority.certificate), *(map(read, reversed(pair)) if pair else ()))
    with grpc.secure_channel(address, credentials) as chan:
        unary = chan.unary_unary('/pawl.test.v1.Echo/Unary', echo_pb2.UnaryRequest.SerializeToString,
                                 echo_pb2.UnaryResponse.FromString)
        return unary(echo_pb2.UnaryRequest(text=text, data=b'y' * 300000), timeout=TIMEOUT_S)


def serve(pair, authority=None):
    args = ['--tls', '127.0.0.1:0', '--certificate', pair[0], '--key', pair[1]]
    if authority:
        args += ['--authority', authority.certificate]
    return Server(*args)


def handshake(address, authority, alpn=('h2',), maximum=None, pair=None):
    context = ssl.create_default_context(cafile=authority.certificate)
    context.set_alpn_protocols(list(alpn))
    if maximum:
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = maximum
    if pair:
        context.load_cert_chain(*pair)
    host, port = address.rsplit(':', 1)
    raw = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
    return context.wrap_socket(raw, server_hostname='localhost')


def test_tls():
    """calls and plain HTTP work over TLS, beside a port without it"""
    with Scratch() as scratch:
        authority = Authority(scratch, 'ca')
        with serve(authority.issue('server', '/CN=localhost')) as server:
            answer = call(server.addresses[1], authority)
            assert answer.text == 'x' and len(answer.data) == 300000 and answer.subject == ''
            for flag, version in (('--http1.1', '1.1'), ('--http2', '2')):
                done = subprocess.run(['curl', '-sS', '--cacert', authority.certificate, flag, '-w', '%{http_version}',
                                       f'https://{server.addresses[1]}/health'], stdout=subprocess.PIPE, check=True)
                assert done.stdout == b'ok\n' + version.encode(), done.stdout
            assert server.get('/health') == 'ok\n'


def test_alpn_and_versions():
    """ALPN prefers h2; TLS 1.2 is the oldest; a client with other protocols is refused"""
    with Scratch() as scratch:
        authority = Authority(scratch, 'ca')
        with serve(authority.issue('server', '/CN=localhost')) as server:
            address = server.addresses[1]
            for offered, chosen in ((('http/1.1', 'h2'), 'h2'), (('http/1.1',), 'http/1.1')):
                with handshake(address, authority, offered) as s:
                    assert s.selected_alpn_protocol() == chosen
            with handshake(address, authority, maximum=ssl.TLSVersion.TLSv1_2) as s:
                assert s.version() == 'TLSv1.2' and 'ECDHE' in s.cipher()[0]
            for bad in ({'alpn': ('spdy/3',)}, {'maximum': ssl.TLSVersion.TLSv1_1}):
                try:
                    handshake(address, authority, **bad).close()
                except (ssl.SSLError, ConnectionError):
                    continue
                raise AssertionError(f'{bad} was accepted')
            # Something that is not TLS at all.
            host, port = address.rsplit(':', 1)
            s = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
            s.sendall(b'GET /health HTTP/1.1\r\n\r\n')
            s.shutdown(socket.SHUT_WR)
            assert b'200' not in s.recv(4096)
            s.close()
            assert server.metric('pawl_connections_tls_failed_total') >= 2
            assert call(address, authority).text == 'x'


def test_mutual():
    """with an authority for clients, their certificate is checked and its subject known"""
    with Scratch() as scratch:
        authority, other = Authority(scratch, 'ca'), Authority(scratch, 'other')
        client, stranger = authority.issue('client', '/O=acme/CN=worker-7'), other.issue('stranger', '/CN=worker-7')
        with serve(authority.issue('server', '/CN=localhost'), authority) as server:
            answer = call(server.addresses[1], authority, client)
            assert answer.subject == 'CN=worker-7,O=acme', answer.subject
            for pair in (None, stranger):
                try:
                    call(server.addresses[1], authority, pair)
                except grpc.RpcError as error:
                    assert error.code() == grpc.StatusCode.UNAVAILABLE, error
                    continue
                raise AssertionError(f'{pair} was let in')
            assert call(server.addresses[1], authority, client).text == 'x'


def serial(address, authority):
    with handshake(address, authority) as s:
        return int(s.getpeercert()['serialNumber'], 16)


def test_reload():
    """certificates are changed without a restart; connections go on; a bad file changes nothing"""
    with Scratch() as scratch:
        authority = Authority(scratch, 'ca')
        pair = authority.issue('server', '/CN=localhost', 11)
        with serve(pair) as server:
            address = server.addresses[1]
            credentials = grpc.ssl_channel_credentials(read(authority.certificate))
            with grpc.secure_channel(address, credentials) as chan:
                unary = chan.unary_unary('/pawl.test.v1.Echo/Unary', echo_pb2.UnaryRequest.SerializeToString,
                                         echo_pb2.UnaryResponse.FromString)
                assert unary(echo_pb2.UnaryRequest(text='before'), timeout=TIMEOUT_S).text == 'before'
                assert serial(address, authority) == 11
                authority.issue('server', '/CN=localhost', 12)
                assert serial(address, authority) == 11
                assert server.command('reload') == 'ok'
                assert serial(address, authority) == 12
                with open(pair[0], 'w', encoding='ascii') as f:
                    f.write('not a certificate')
                assert 'could not read the certificate' in server.command('reload')
                os.unlink(pair[1])
                assert 'could not' in server.command('reload')
                assert serial(address, authority) == 12
                assert unary(echo_pb2.UnaryRequest(text='after'), timeout=TIMEOUT_S).text == 'after'


def test_stop():
    """stopping ends a call over TLS with a status, not with a broken connection"""
    with Scratch() as scratch:
        authority = Authority(scratch, 'ca')
        with serve(authority.issue('server', '/CN=localhost')) as server:
            credentials = grpc.ssl_channel_credentials(read(authority.certificate))
            with grpc.secure_channel(server.addresses[1], credentials) as chan:
                unary = chan.unary_unary('/pawl.test.v1.Echo/Unary', echo_pb2.UnaryRequest.SerializeToString,
                                         echo_pb2.UnaryResponse.FromString)
                call = unary.future(echo_pb2.UnaryRequest(never=True))
                while server.state()['held'] == 0:
                    pass
                assert server.command('stop 200') == 'stopping'
                assert call.code() == grpc.StatusCode.UNAVAILABLE and 'the server stopped' in call.details(), call.details()
                assert server.process.stdout.readline().strip() == 'stopped'


if __name__ == '__main__':
    sys.stdout.reconfigure(line_buffering=True)
    run(globals())
