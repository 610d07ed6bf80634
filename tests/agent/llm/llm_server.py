"""A real HTTP server that speaks the chat-completions protocol, and misbehaves on demand."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DRIP_S = 0.02


def completion(content, usage=True, choices=None):
    """The body of a chat completion whose only choice says ``content``."""
    made = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}]
    body = {"id": "x", "object": "chat.completion", "model": "m", "choices": made if choices is None else choices}
    if usage:
        body["usage"] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return body


class Server:
    """Answers each request with the next of ``script``, the last one over and over. Requests are kept.

    A script entry is (status, headers, body) with a JSON body or bytes, or a behaviour by name: ``stall``, ``endless``,
    ``drip`` (bytes for ever, slowly), ``cut`` (closes half-way), or a function (request) -> entry.
    """

    def __init__(self, *script):
        self.script, self.requests = deque(script), []
        self.stop = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.requests.append(
                    {"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body}
                )
                entry = owner.script.popleft() if len(owner.script) > 1 else owner.script[0]
                if callable(entry):
                    entry = entry(body)
                try:
                    if isinstance(entry, str):
                        getattr(owner, entry)(self)
                    else:
                        owner.answer(self, *entry)
                except (BrokenPipeError, ConnectionResetError):
                    pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.http.shutdown()
        self.http.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    def answer(self, handler, status, headers, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for k, v in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            handler.send_header(k, v)
        handler.end_headers()
        handler.wfile.write(data)

    def stall(self, handler):
        self.stop.wait(20)
        handler.close_connection = True

    def _open_ended(self, handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True

    def endless(self, handler):
        self._open_ended(handler)
        handler.wfile.write(b'{"choices": [{"message": {"content": "')
        while not self.stop.is_set():
            handler.wfile.write(b"tokens " * 4096)

    def drip(self, handler):
        self._open_ended(handler)
        while not self.stop.is_set():
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(DRIP_S)

    def cut(self, handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"choices":')
        handler.close_connection = True
