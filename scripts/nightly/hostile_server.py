"""A server on 127.0.0.1 that attacks its clients: it writes bytes to sockets, one attack for each of its ports.

    python -m scripts.nightly.hostile_server LOG

It prints the ports by attack as JSON, and writes a line to LOG for each request: the attack, and whether the request
held the key. It ends with its standard input.
"""

import json
import os
import re
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from scripts.nightly.hostile_acts import SECONDS, Act, Peer
from scripts.nightly.hostile_attacks import attacks
from scripts.nightly.spoiling import in_process_limits

KEY = "sk-planted-0123456789"


def good_reply(path: str, body: bytes) -> bytes:
    """Return what an honest server would say."""
    tokens = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    said = {"role": "assistant", "content": "Ostrim"}
    if path.endswith("/chat/completions"):
        if b'"stream":true' in body.replace(b" ", b""):
            first = {"choices": [{"index": 0, "delta": said}]}
            last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": tokens}
            return f"data: {json.dumps(first)}\n\ndata: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode()
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        made: Any = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": tokens,
        }
    elif path.endswith("/messages"):
        made = {"id": "x", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        made |= {"content": [{"type": "text", "text": "Ostrim"}], "usage": {"input_tokens": 5, "output_tokens": 2}}
    elif path.endswith("/v1/completions"):
        made = {"choices": [{"index": 0, "text": " Ostrim", "finish_reason": "stop"}], "usage": tokens}
    elif path.endswith("/models"):
        made = {"object": "list", "data": [{"id": "any-model", "max_model_len": 2048}]}
    elif path.endswith("/tokenize"):
        ids = list(json.loads(body)["prompt"].encode())
        made = {"tokens": ids, "count": len(ids)}
    elif path.endswith("/version"):
        made = {"version": "0.33.0"}
    else:
        made = {}
    return json.dumps(made).encode()


def is_preliminary(path: str, body: bytes) -> bool:
    """Return whether a request is a client's question about the server, before the one to attack."""
    return path.endswith(("/models", "/tokenize", "/version")) or b'"echo"' in body or b"prompt_logprobs" in body


def receive(link: socket.socket) -> tuple[str, bytes, bytes]:
    """Return path, head and body of a request."""
    content = b""
    while b"\r\n\r\n" not in content:
        if not (part := link.recv(1 << 16)):
            raise ConnectionError
        content += part
    head, _, body = content.partition(b"\r\n\r\n")
    size = re.search(rb"content-length: *(\d+)", head, re.I)
    while len(body) < int(size[1] if size else 0):
        body += link.recv(1 << 16) or b" " * (1 << 20)
    return head.split(b" ")[1].partition(b"?")[0].decode(), head, body


def serve(link: socket.socket, name: str, act: Act, ports: dict[str, int], note: Callable[[str], None]) -> None:
    """Attack one connection, or several requests of it that are spared."""
    link.settimeout(SECONDS)
    with link:
        try:
            while True:
                path, head, body = receive(link)
                note(f"{name}\t{KEY.encode() in head}\t{path}\n")
                is_stream = b'"stream":true' in body.replace(b" ", b"")
                peer = Peer(link, path, is_stream, good_reply(path, body), ports)
                if not is_preliminary(path, body):
                    act(peer)
                    return
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ")
                peer.send(b"%d\r\n\r\n" % len(peer.reply), peer.reply)
        except (OSError, ValueError, IndexError):  # the client has gone
            return


def accept(listener: socket.socket, *rest: Any) -> None:
    """Serve each connection of a port in a thread."""
    while True:
        link, _ = listener.accept()
        threading.Thread(target=serve, args=(link, *rest), daemon=True).start()


def main(log: str) -> None:
    """Listen on all ports until the standard input ends."""
    in_process_limits(gigabytes=6)
    threading.stack_size(1 << 20)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    made = attacks()
    listeners = {name: socket.create_server(("127.0.0.1", 0), backlog=16) for name in made}
    ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
    note = partial(lambda line: os.write(file, line.encode()))
    for name, listener in listeners.items():
        arguments = (listener, name, made[name], ports, note)
        threading.Thread(target=accept, args=arguments, daemon=True).start()
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
