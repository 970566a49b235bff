"""The connection: addresses, TLS, tokens, and the calls of the contract."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import grpc

from .v1 import pawl_pb2 as pb

DEFAULT_ADDRESS = '127.0.0.1:7295'
Token = Union[str, Callable[[], str]]

# A payload has at most 16 MiB, and an assignment may carry several.
_MESSAGE_MAX = 64 * 1024 * 1024
_OPTIONS: List[Tuple[str, Any]] = [
    ('grpc.max_receive_message_length', _MESSAGE_MAX),
    ('grpc.max_send_message_length', _MESSAGE_MAX),
    # A peer that is gone without a word is noticed, also while nothing is to be said.
    ('grpc.keepalive_time_ms', 10_000),
    ('grpc.keepalive_timeout_ms', 5_000),
    ('grpc.keepalive_permit_without_calls', 1),
    ('grpc.http2.max_pings_without_data', 0),
    # A lost connection is tried again soon, and then less and less often.
    ('grpc.initial_reconnect_backoff_ms', 100),
    ('grpc.min_reconnect_backoff_ms', 5_000),  # which is how long an attempt may take
    ('grpc.max_reconnect_backoff_ms', 5_000),
    ('grpc.enable_retries', 0),
]


@dataclass(frozen=True)
class TLS:
    """Files in PEM. ca: who signed the server's certificate (None: the system's authorities). cert and key: this
    client's own, where the server asks for one. server_name: what the certificate is made out to, if that is not the
    address."""

    ca: Optional[str] = None
    cert: Optional[str] = None
    key: Optional[str] = None
    server_name: Optional[str] = None


def _read(path: Optional[str]) -> Optional[bytes]:
    if path is None:
        return None
    with open(path, 'rb') as f:
        return f.read()


def resolve(address: Optional[str]) -> str:
    """The address to talk to: what was given, else PAWL_SERVER, else the server's own default."""
    return address or os.environ.get('PAWL_SERVER') or DEFAULT_ADDRESS


def token_source(token: Optional[Token]) -> Optional[Callable[[], str]]:
    if callable(token):
        return token
    text = token or os.environ.get('PAWL_TOKEN') or ''
    return (lambda: text) if text else None


def metadata(source: Optional[Callable[[], str]]) -> Sequence[Tuple[str, str]]:
    return (('authorization', f'Bearer {source()}'),) if source is not None else ()


def channel(module: Any, address: str, tls: Union[None, bool, TLS]) -> Any:
    """A channel of grpc or of grpc.aio."""
    options = list(_OPTIONS)
    if tls is None or tls is False:
        return module.insecure_channel(address, options=options)
    files = TLS() if tls is True else tls
    if files.server_name:
        options.append(('grpc.ssl_target_name_override', files.server_name))
    credentials = grpc.ssl_channel_credentials(_read(files.ca), _read(files.key), _read(files.cert))
    return module.secure_channel(address, credentials, options=options)


class Calls:
    """The calls of the contract on a channel, each by its name: calls.Enqueue(request, timeout=…, metadata=…).

    All of them should be made with wait_for_ready: gRPC's core makes progress with a connection only while some call
    waits for it, and one that fails at once does not wait.
    """

    def __init__(self, on: Any) -> None:
        for service in pb.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                answer = getattr(pb, method.output_type.name)
                make = on.unary_stream if method.name == 'StreamJobs' else on.unary_unary
                setattr(
                    self,
                    method.name,
                    make(
                        f'/{service.full_name}/{method.name}',
                        request_serializer=getattr(pb, method.input_type.name).SerializeToString,
                        response_deserializer=answer.FromString,
                    ),
                )

    def __getattr__(self, name: str) -> Any:  # for type checkers; what exists is found before
        raise AttributeError(name)
