"""A TCP proxy for one address, whose connections can be cut or held up while they live."""
import contextlib
import socket
import threading


class Proxy:
    """Listens at `address` and forwards to `target`, HOST:PORT."""

    def __init__(self, target):
        self._target = target.rsplit(":", 1)
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._sockets = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Every connection breaks; new ones may be made."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def hold(self):
        """Bytes stay where they are until go_on()."""
        self._open.clear()

    def go_on(self):
        self._open.set()

    def close(self):
        self._listener.close()
        self.go_on()
        self.cut()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target, timeout=5)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            with self._lock:
                self._sockets |= {near, far}
            for source, sink in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 18):
                self._open.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._sockets.discard(source)
        source.close()
