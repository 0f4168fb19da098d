"""Serves a live page, its updates and the run's report on loopback."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote

from testbed.errors import UserError
from testbed.watch.page import LivePage


@contextmanager
def served(page: LivePage, port: int | None) -> Iterator[str]:
    """Serve the page, its updates and the report on loopback; yields the address, "" without a port."""
    if port is None:
        yield ""
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = unquote(self.path.partition("?")[0]).lstrip("/")
            files = {"": page.path, page.path.name: page.path, page.script.name: page.script}
            if page.report is not None:
                files[os.path.relpath(page.report, page.path.parent)] = page.report
            try:
                content = files[asked].read_bytes()
            except (KeyError, OSError):
                self.send_error(404)
                return
            kind = "text/javascript" if asked == page.script.name else "text/html"
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (http.server's name)
            pass

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}") from error
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
